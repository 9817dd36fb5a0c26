#include "base/segment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "base/fault_point.h"

namespace rankcast::base {
namespace {

TEST(SegmentTest, IsPageAlignedZeroFilledAndWritable) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const Segment segment = Segment::reserve(page + 1).value();
  EXPECT_EQ(segment.bytes(), 2 * page);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.base()) % page, 0u);
  for (std::size_t i = 0; i < segment.bytes(); ++i) ASSERT_EQ(segment.base()[i], std::byte{0});
  segment.base()[segment.bytes() - 1] = std::byte{7};
  EXPECT_EQ(segment.base()[segment.bytes() - 1], std::byte{7});
}

TEST(SegmentTest, EightHeapsOf512MiBOpen) {
  std::vector<Segment> heaps;
  for (int i = 0; i < 8; ++i) {
    auto heap = Segment::reserve(std::size_t{512} << 20);
    ASSERT_TRUE(heap.has_value()) << heap.error().text;
    heap->base()[heap->bytes() / 2] = std::byte{1};
    heaps.push_back(std::move(*heap));
  }
}

TEST(SegmentTest, Moves) {
  Segment segment = Segment::reserve(1).value();
  std::byte* base = segment.base();
  Segment other = std::move(segment);
  EXPECT_EQ(other.base(), base);
  segment = Segment::reserve(1).value();
  segment = std::move(other);
  EXPECT_EQ(segment.base(), base);
  *segment.base() = std::byte{1};
  segment = Segment();
  EXPECT_EQ(segment.base(), nullptr);
  EXPECT_EQ(segment.bytes(), 0u);
}

void expect_refused(const Result<Segment>& refused, ErrorCode code, const char* part) {
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, code);
  EXPECT_NE(refused.error().text.find(part), std::string::npos) << refused.error().text;
}

TEST(SegmentTest, RefusalsNameTheBytes) {
  expect_refused(Segment::reserve(0), ErrorCode::invalid_argument, "0 bytes");
  expect_refused(Segment::reserve(std::numeric_limits<std::size_t>::max()),
                 ErrorCode::out_of_memory, "18446744073709551615 bytes");
  expect_refused(Segment::reserve(std::size_t{1} << 62), ErrorCode::out_of_memory,
                 "4611686018427387904 bytes");
  arm_fault_point("base.segment_reserve");
  expect_refused(Segment::reserve(4096), ErrorCode::out_of_memory, "Cannot allocate memory");
}

}  // namespace
}  // namespace rankcast::base
