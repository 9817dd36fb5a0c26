#include "tensor/view.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "support/expect_error.h"
#include "support/seed.h"
#include "tensor/random_views.h"

namespace rankcast {
namespace {

using detail::TensorAccess;
using test::expect_error;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// f32[8, 16], 512 bytes into its buffer.
DeviceTensor matrix() {
  return TensorAccess::make(7, {.slot = 5, .generation = 9, .rank = 2, .of_stack = 1}, 512,
                            tensor::contiguous_layout(DType::f32, Shape{8, 16}));
}

/// The numbers of the elements of the tensor that a view was made of, in the view's order.
std::vector<std::int64_t> elements_of(const DeviceTensor& view, std::uint64_t base_offset) {
  std::vector<std::int64_t> elements;
  const std::uint64_t offset = TensorAccess::offset_bytes(view) - base_offset;
  test::each_element(TensorAccess::layout(view), [&](std::size_t at) {
    elements.push_back(static_cast<std::int64_t>((offset + at) / size_bytes(view.dtype())));
  });
  return elements;
}

TEST(ViewTest, ASliceTakesABlock) {
  const DeviceTensor view = matrix().slice(1, 3, 6);
  EXPECT_EQ(view.shape(), (Shape{8, 3}));
  EXPECT_EQ(view.strides()[0], 16);
  EXPECT_EQ(view.strides()[1], 1);
  EXPECT_EQ(TensorAccess::offset_bytes(view), 512U + 12);
  EXPECT_EQ(TensorAccess::layout(view).extent_bytes, (7U * 16 + 3) * 4);
  EXPECT_EQ(view.size_bytes(), 96U);
  EXPECT_TRUE(tensor::is_valid(TensorAccess::layout(view)));
}

TEST(ViewTest, AViewIsOfTheSameBufferAndKnowsItIsAView) {
  const DeviceTensor tensor = matrix();
  EXPECT_EQ(TensorAccess::shard(tensor).is_view, 0);
  for (const DeviceTensor& view :
       {tensor.slice(0, 0, 8), tensor.transpose(0, 1), tensor.strided({8, 16}, {16, 1})}) {
    EXPECT_EQ(view.buffer(), tensor.buffer());
    EXPECT_EQ(view.dtype(), tensor.dtype());
    EXPECT_EQ(TensorAccess::mesh(view), 7U);
    EXPECT_EQ(TensorAccess::shard(view).of_stack, 1);
    EXPECT_EQ(TensorAccess::shard(view).is_view, 1);
  }
}

TEST(ViewTest, ASliceTakesEveryNth) {
  const DeviceTensor view = matrix().slice(0, 1, 8, 3);
  EXPECT_EQ(view.shape(), (Shape{3, 16}));  // rows 1, 4, 7
  EXPECT_EQ(view.strides()[0], 48);
  EXPECT_EQ(matrix().slice(0, 1, 7, 3).shape(), (Shape{2, 16}));
  EXPECT_EQ(matrix().slice(0, 1, 8, 7).shape(), (Shape{1, 16}));
  // One element is left, whatever the step.
  const DeviceTensor one = matrix().slice(0, 2, 8, kMost);
  EXPECT_EQ(one.shape(), (Shape{1, 16}));
  EXPECT_TRUE(tensor::is_valid(TensorAccess::layout(one)));
}

TEST(ViewTest, ATransposeExchangesTwoDimensions) {
  const DeviceTensor view = matrix().transpose(1, 0);
  EXPECT_EQ(view.shape(), (Shape{16, 8}));
  EXPECT_EQ(view.strides()[0], 1);
  EXPECT_EQ(view.strides()[1], 16);
  EXPECT_EQ(TensorAccess::offset_bytes(view), 512U);
  EXPECT_EQ(matrix().transpose(1, 1).shape(), (Shape{8, 16}));
}

TEST(ViewTest, StridedIsRelativeToTheView) {
  const DeviceTensor view = matrix().slice(0, 2, 6).strided({3, 2}, {17, 4}, 5);
  EXPECT_EQ(elements_of(view, 512), (std::vector<std::int64_t>{37, 41, 54, 58, 71, 75}));
  EXPECT_TRUE(tensor::is_valid(TensorAccess::layout(view)));
  // The diagonal of the square on the left, and windows that share elements.
  EXPECT_EQ(elements_of(matrix().strided({8}, {17}), 512),
            (std::vector<std::int64_t>{0, 17, 34, 51, 68, 85, 102, 119}));
  EXPECT_EQ(elements_of(matrix().strided({2, 3}, {1, 1}, 124), 512),
            (std::vector<std::int64_t>{124, 125, 126, 125, 126, 127}));
}

TEST(ViewTest, StridedMayReachEveryByteBetweenFirstAndLast) {
  const DeviceTensor columns = matrix().slice(1, 3, 6);  // spans 115 elements
  EXPECT_EQ(columns.strided({115}, {1}).shape(), Shape{115});
  expect_error(ErrorCode::invalid_argument, {"shape [116]", "strides [1]", "spans 115 elements"},
               [&] { columns.strided({116}, {1}); });
  expect_error(ErrorCode::invalid_argument, {"from element 1 on", "spans 115 elements"},
               [&] { columns.strided({115}, {1}, 1); });
}

TEST(ViewTest, SlicesOutOfRangeAreRefusedWithTheNumbers) {
  const DeviceTensor tensor = matrix();
  const auto refused = [&](std::initializer_list<std::string> words, int dim, std::int64_t begin,
                           std::int64_t end, std::int64_t step) {
    expect_error(ErrorCode::invalid_argument, words,
                 [&] { (void)tensor.slice(dim, begin, end, step); });
  };
  refused({"no dimension 2", "f32[8, 16]", "0 to 1"}, 2, 0, 1, 1);
  refused({"no dimension -1"}, -1, 0, 1, 1);
  refused({"-1 to 3", "dimension 1 of f32[8, 16]", "end <= 16"}, 1, -1, 3, 1);
  refused({"3 to 17", "end <= 16"}, 1, 3, 17, 1);
  refused({"3 to 3"}, 1, 3, 3, 1);
  refused({"4 to 3"}, 1, 4, 3, 1);
  refused({"in steps of 0"}, 1, 0, 3, 0);
  refused({"in steps of -2"}, 1, 0, 3, -2);
}

TEST(ViewTest, TransposesOutOfRangeAreRefused) {
  expect_error(ErrorCode::invalid_argument, {"transpose", "no dimension 2"},
               [] { (void)matrix().transpose(0, 2); });
  expect_error(ErrorCode::invalid_argument, {"transpose", "no dimension -1"},
               [] { (void)matrix().transpose(-1, 0); });
}

TEST(ViewTest, StridesThatLeaveTheTensorAreRefused) {
  const auto refused = [](std::initializer_list<std::string> words, const Shape& shape,
                          const std::vector<std::int64_t>& strides, std::int64_t offset) {
    expect_error(ErrorCode::invalid_argument, words,
                 [&] { (void)matrix().strided(shape, strides, offset); });
  };
  refused({"1 strides", "2 extents", "[2, 2]"}, {2, 2}, {1}, 0);
  refused({"stride 1 of [1, 0] is 0"}, {2, 2}, {1, 0}, 0);
  refused({"stride 0 of [-16, 1] is -16"}, {2, 2}, {-16, 1}, 0);
  refused({"from element -1 on", "f32[8, 16]", "128 elements"}, {1}, {1}, -1);
  refused({"from element 128 on"}, {1}, {1}, 128);
  refused({"[2]", "[128]"}, {2}, {128}, 0);
  refused({"[2]"}, {2}, {kMost}, 0);
  refused({"[3]"}, {3}, {kMost}, 0);
  refused({"from element"}, {1}, {1}, kMost);
  refused({"bytes"}, {kMost / 2}, {1}, 0);
}

TEST(ViewTest, AnEmptyHandleHasNoViews) {
  const DeviceTensor empty;
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { (void)empty.slice(0, 0, 1); });
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { (void)empty.transpose(0, 0); });
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { (void)empty.strided({1}, {1}); });
}

// Chains of views against the same chains over a table of element numbers.
TEST(ViewTest, ViewsOfViewsNameTheElementsThatTheTableSays) {
  test::RandomViews random(test::test_seed());
  for (int round = 0; round < 3'000; ++round) {
    DeviceTensor view = random.base(4, 7, 300);
    const std::uint64_t extent = TensorAccess::layout(view).extent_bytes;
    std::vector<std::int64_t> table(static_cast<std::size_t>(view.shape().element_count()));
    std::iota(table.begin(), table.end(), 0);
    for (int step = 0; step < 4; ++step) {
      const Shape before = view.shape();
      const int dim = static_cast<int>(random.number(0, before.dims() - 1));
      const int other = static_cast<int>(random.number(0, before.dims() - 1));
      std::int64_t begin = 0, end = before[dim], stride = 1;
      const bool transposed = random.number(0, 2) == 0;
      if (transposed) {
        view = view.transpose(dim, other);
      } else {
        begin = random.number(0, before[dim] - 1);
        end = random.number(begin + 1, before[dim]);
        stride = random.number(1, 3);
        view = view.slice(dim, begin, end, stride);
      }
      // The same, index by index.
      std::vector<std::int64_t> next;
      const detail::Layout after = tensor::contiguous_layout(DType::u8, view.shape());
      const detail::Layout of_before = tensor::contiguous_layout(DType::u8, before);
      test::each_element(after, [&](std::size_t number) {
        std::array<std::int64_t, kMaxDims> index{};
        for (std::size_t i = 0; i < after.dims; ++i) {
          index[i] = static_cast<std::int64_t>(number) / after.strides[i] % after.shape[i];
        }
        if (transposed) {
          std::swap(index[static_cast<std::size_t>(dim)], index[static_cast<std::size_t>(other)]);
        } else {
          std::int64_t& sliced = index[static_cast<std::size_t>(dim)];
          sliced = begin + sliced * stride;
        }
        std::int64_t place = 0;
        for (std::size_t i = 0; i < of_before.dims; ++i) place += index[i] * of_before.strides[i];
        next.push_back(table[static_cast<std::size_t>(place)]);
      });
      table = std::move(next);
      ASSERT_EQ(elements_of(view, 0), table) << "round " << round << " step " << step;
      const detail::Layout& layout = TensorAccess::layout(view);
      ASSERT_TRUE(tensor::is_valid(layout));
      ASSERT_LE(TensorAccess::offset_bytes(view) + layout.extent_bytes, extent);
    }
  }
}

}  // namespace
}  // namespace rankcast
