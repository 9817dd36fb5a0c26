#include "tensor/overlap.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "support/seed.h"
#include "tensor/random_views.h"

namespace rankcast::tensor {
namespace {

using detail::Layout;
using detail::TensorAccess;
using test::RandomViews;

struct Place {
  Layout layout;
  std::uint64_t offset = 0;
};

Place place_of(const DeviceTensor& tensor) {
  return {TensorAccess::layout(tensor), TensorAccess::offset_bytes(tensor)};
}

bool meet(const Place& a, const Place& b) {
  const bool forth = overlap(a.layout, a.offset, b.layout, b.offset);
  EXPECT_EQ(overlap(b.layout, b.offset, a.layout, a.offset), forth);
  return forth;
}
bool meet(const DeviceTensor& a, const DeviceTensor& b) { return meet(place_of(a), place_of(b)); }
bool hides(const Place& a, const Place& b) {
  return covers(a.layout, a.offset, b.layout, b.offset);
}
bool hides(const DeviceTensor& a, const DeviceTensor& b) { return hides(place_of(a), place_of(b)); }

std::string text(const Place& place) {
  return describe(place.layout) + " at byte " + std::to_string(place.offset);
}

DeviceTensor matrix(const Shape& shape, DType dtype = DType::f32) {
  return TensorAccess::make(1, {.slot = 0, .generation = 1, .rank = 0}, 0,
                            contiguous_layout(dtype, shape));
}

/// Every byte of every element, one by one.
class ByteSets {
 public:
  explicit ByteSets(std::size_t bytes) : marks_(bytes) {}

  struct Answer {
    bool meet = false;
    bool first_hides_second = true;
  };
  Answer compare(const Place& a, const Place& b) {
    ++stamp_;
    visit(a, [this](std::uint32_t& mark) { mark = stamp_; });
    Answer answer;
    visit(b, [&](const std::uint32_t& mark) {
      answer.meet |= mark == stamp_;
      answer.first_hides_second &= mark == stamp_;
    });
    return answer;
  }

 private:
  template <class Visit>
  void visit(const Place& place, Visit&& visit_byte) {
    test::each_element(place.layout, [&](std::size_t offset) {
      for (std::size_t i = 0; i < size_bytes(place.layout.dtype); ++i)
        visit_byte(marks_.at(place.offset + offset + i));
    });
  }

  std::vector<std::uint32_t> marks_;
  std::uint32_t stamp_ = 0;
};

TEST(OverlapTest, RowBlocksAndColumnBlocksAreIndependent) {
  const DeviceTensor whole = matrix({64, 48});
  for (int i = 0; i < 8; ++i) {
    const DeviceTensor rows = whole.slice(0, i * 8, i * 8 + 8);
    const DeviceTensor columns = whole.slice(1, i * 6, i * 6 + 6);
    for (int j = 0; j < 8; ++j) {
      EXPECT_EQ(meet(rows, whole.slice(0, j * 8, j * 8 + 8)), i == j) << i << " " << j;
      EXPECT_EQ(meet(columns, whole.slice(1, j * 6, j * 6 + 6)), i == j) << i << " " << j;
      EXPECT_EQ(meet(columns.transpose(0, 1), whole.slice(1, j * 6, j * 6 + 6)), i == j);
      EXPECT_TRUE(meet(rows, whole.slice(1, j * 6, j * 6 + 6)));
    }
    EXPECT_TRUE(meet(whole, rows) && hides(whole, rows) && !hides(rows, whole));
    EXPECT_TRUE(meet(whole, columns) && hides(whole, columns) && !hides(columns, whole));
  }
}

TEST(OverlapTest, EvenAndOddAreIndependent) {
  const DeviceTensor whole = matrix({9, 11});
  const DeviceTensor even = whole.slice(1, 0, 11, 2);
  const DeviceTensor odd = whole.slice(1, 1, 11, 2);
  EXPECT_FALSE(meet(even, odd));
  EXPECT_TRUE(meet(even, whole.slice(1, 0, 11, 3)));  // column 6
  EXPECT_FALSE(meet(even.slice(0, 0, 9, 2), even.slice(0, 1, 9, 2)));
  EXPECT_TRUE(hides(even, whole.slice(1, 0, 11, 4)));
  EXPECT_FALSE(hides(even, whole.slice(1, 0, 11, 3)));
}

TEST(OverlapTest, DisjointBytesAndOnesThatTouchAtAnEdge) {
  const Place first{contiguous_layout(DType::f32, Shape{4}), 16};
  for (const auto& [offset, expected] :
       {std::pair{0, false}, {4, true}, {16, true}, {28, true}, {32, false}, {1 << 30, false}}) {
    const Place other{contiguous_layout(DType::f32, Shape{4}), static_cast<std::uint64_t>(offset)};
    EXPECT_EQ(meet(first, other), expected) << offset;
    EXPECT_EQ(hides(first, other), offset == 16) << offset;
  }
}

// Elements of one size that do not lie in step, and elements of different sizes.
TEST(OverlapTest, BytesCountWhereElementsDoNotAgree) {
  Layout every_second = contiguous_layout(DType::i16, Shape{4});
  every_second.strides[0] = 2;
  every_second.extent_bytes = 14;  // bytes 0 1, 4 5, 8 9, 12 13
  Layout bytes = contiguous_layout(DType::u8, Shape{3});
  bytes.strides[0] = 4;
  bytes.extent_bytes = 9;
  EXPECT_FALSE(meet({every_second, 0}, {bytes, 2}));
  EXPECT_TRUE(meet({every_second, 0}, {bytes, 1}));
  EXPECT_TRUE(hides({every_second, 0}, {bytes, 1}));
  EXPECT_FALSE(hides({every_second, 0}, {bytes, 3}));
  EXPECT_TRUE(meet({every_second, 0}, {every_second, 3}));  // byte 4
  EXPECT_FALSE(meet({every_second, 0}, {every_second, 2}));
  EXPECT_TRUE(hides({contiguous_layout(DType::f32, Shape{5}), 0}, {every_second, 3}));
}

TEST(OverlapTest, WhatHasNoGapsHidesWhateverLiesInside) {
  const DeviceTensor whole = matrix({6, 10});
  EXPECT_TRUE(hides(whole.transpose(0, 1), whole.strided({7, 3}, {5, 2}, 11)));
  EXPECT_TRUE(hides(whole.slice(0, 2, 5), whole.strided({10}, {2}, 21)));
  EXPECT_FALSE(hides(whole.slice(0, 2, 5), whole.strided({10}, {2}, 32)));
  EXPECT_FALSE(hides(whole.slice(1, 0, 9), whole.strided({10}, {2}, 21)));
  // Windows that share elements have no gaps either.
  EXPECT_TRUE(hides(whole.strided({58, 3}, {1, 1}), whole));
}

// Sums of the strides of the one are 0 to 72 beyond a multiple of 1000, of the other as well, and
// their beginnings 500 apart: they never meet, and no search of 4,096 steps finds that out.
TEST(OverlapTest, WhatCannotBeDecidedMeets) {
  Layout a = contiguous_layout(DType::u8, Shape{10, 10, 10, 10, 10, 10, 10, 10});
  Layout b = a;
  constexpr std::array<std::int64_t, 8> kA = {101, 103, 107, 109, 113, 127, 131, 137};
  constexpr std::array<std::int64_t, 8> kB = {139, 149, 151, 157, 163, 167, 173, 179};
  for (std::size_t dim = 0; dim < 8; ++dim) {
    a.strides[dim] = 1000 * kA[dim] + 1;
    b.strides[dim] = 1000 * kB[dim] + 1;
  }
  a.extent_bytes = *extent_bytes_of(a);
  b.extent_bytes = *extent_bytes_of(b);
  EXPECT_TRUE(meet({a, 0}, {b, 1'000'500}));
  EXPECT_FALSE(hides({a, 0}, {b, 1'000'500}));
}

TEST(OverlapTest, SpansTooLargeForTheSearchMeetAndHideNothing) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  Layout even = contiguous_layout(DType::u8, Shape{kHuge});
  even.strides[0] = 2;
  even.extent_bytes = *extent_bytes_of(even);
  EXPECT_TRUE(meet({even, 0}, {even, 1}));
  EXPECT_FALSE(hides({even, 0}, {contiguous_layout(DType::u8, Shape{1}), 2}));
  EXPECT_TRUE(hides({even, 0}, {even, 0}));
  EXPECT_FALSE(meet({even, 0}, {even, std::uint64_t{1} << 63}));
}

TEST(OverlapTest, AHundredThousandPairsAgainstSetsOfBytes) {
  const std::uint64_t seed = test::test_seed();
  RandomViews random(seed);
  int met = 0, hid = 0;
  ByteSets oracle(512 * 8);
  for (int round = 0; round < 100'000; ++round) {
    const DeviceTensor whole = random.base(4, 8, 256);
    const auto view = [&](bool any) {
      return place_of(any ? random.strided(whole) : random.sliced(whole));
    };
    const bool of_one_family = round % 2 == 0;
    const Place a = view(!of_one_family && random.number(0, 1) == 0);
    Place b = view(!of_one_family);
    if (round % 8 == 1) {  // no two views of one tensor, but what overlap and covers promise of any
      b.layout.dtype = random.dtype();
      b.layout.extent_bytes = *extent_bytes_of(b.layout);
      b.offset += static_cast<std::uint64_t>(random.number(0, 7));
      if (b.offset + b.layout.extent_bytes > 512 * 8) continue;
    }
    const ByteSets::Answer truth = oracle.compare(a, b);
    const bool meeting = meet(a, b);
    const bool hiding = hides(a, b);
    const auto where = [&] {
      return ::testing::Message() << "round " << round << ": " << text(a) << ", " << text(b);
    };
    ASSERT_FALSE(truth.meet && !meeting) << "a lost edge, " << where();
    ASSERT_FALSE(hiding && !truth.first_hides_second) << "bytes not covered, " << where();
    // So small a pair is never cut short.
    ASSERT_FALSE(meeting && !truth.meet) << "an edge added, " << where();
    if (of_one_family) {
      ASSERT_EQ(hiding, truth.first_hides_second) << "cover not seen, " << where();
    }
    met += static_cast<int>(meeting);
    hid += static_cast<int>(hiding);
  }
  EXPECT_GT(met, 20'000);
  EXPECT_LT(met, 80'000);
  EXPECT_GT(hid, 5'000);
}

// What a view takes of one dimension of the tensor it was made of.
struct Progression {
  std::int64_t begin = 0, step = 1, count = 1;

  bool has(std::int64_t index) const {
    return index >= begin && (index - begin) % step == 0 && (index - begin) / step < count;
  }
  bool meets(const Progression& other) const {
    const Progression& fewer = count < other.count ? *this : other;
    const Progression& more = count < other.count ? other : *this;
    for (std::int64_t i = 0; i < fewer.count; ++i) {
      if (more.has(fewer.begin + i * fewer.step)) return true;
    }
    return false;
  }
  bool hides(const Progression& other) const {
    for (std::int64_t i = 0; i < other.count; ++i) {
      if (!has(other.begin + i * other.step)) return false;
    }
    return true;
  }
};

// Eight dimensions, thousands of millions of elements: exact, so never cut short.
TEST(OverlapTest, LargePairsOfOneRowMajorTensorAreExact) {
  RandomViews random(test::test_seed());
  int apart = 0, hid = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::array<std::int64_t, kMaxDims> extents{};
    const auto dims = static_cast<std::size_t>(random.number(1, kMaxDims));
    for (std::size_t dim = 0; dim < dims; ++dim) {
      extents[dim] = random.number(1, dims < 3 ? 2000 : 60);
    }
    const DeviceTensor whole =
        matrix(Shape(std::span<const std::int64_t>(extents).first(dims)), DType::i16);
    bool meeting = true, hiding = true;
    DeviceTensor views[2];
    std::array<std::array<Progression, kMaxDims>, 2> taken{};
    for (int side = 0; side < 2; ++side) {
      views[side] = whole;
      for (std::size_t dim = 0; dim < dims; ++dim) {
        Progression& at = taken[static_cast<std::size_t>(side)][dim];
        at = {0, 1, extents[dim]};
        if (random.number(0, 1) == 0) continue;
        at.begin = random.number(0, std::min<std::int64_t>(extents[dim] - 1, 4));
        const std::int64_t end =
            random.number(0, 2) == 0 ? random.number(at.begin + 1, extents[dim]) : extents[dim];
        at.step = random.number(1, 9);
        at.count = (end - at.begin - 1) / at.step + 1;
        views[side] = views[side].slice(static_cast<int>(dim), at.begin, end, at.step);
      }
      for (int i = 0; i < 3; ++i) {
        const auto any = [&] { return static_cast<int>(random.number(0, views[side].dims() - 1)); };
        views[side] = views[side].transpose(any(), any());
      }
    }
    for (std::size_t dim = 0; dim < dims; ++dim) {
      meeting &= taken[0][dim].meets(taken[1][dim]);
      hiding &= taken[0][dim].hides(taken[1][dim]);
    }
    ASSERT_EQ(meet(views[0], views[1]), meeting)
        << "round " << round << ": " << text(place_of(views[0])) << ", "
        << text(place_of(views[1]));
    ASSERT_EQ(hides(views[0], views[1]), hiding)
        << "round " << round << ": " << text(place_of(views[0])) << ", "
        << text(place_of(views[1]));
    apart += static_cast<int>(!meeting);
    hid += static_cast<int>(hiding);
  }
  EXPECT_GT(apart, 1'000);
  EXPECT_GT(hid, 100);
}

}  // namespace
}  // namespace rankcast::tensor
