#include "base/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <utility>

namespace rankcast::base {
namespace {

TEST(ScratchTest, KeepsWhatWasPushedWhileItGrows) {
  Scratch<int> scratch;
  EXPECT_TRUE(scratch.empty());
  for (int i = 0; i < 1000; ++i) scratch.push(i);
  EXPECT_EQ(scratch.size(), 1000u);
  EXPECT_EQ(scratch[0], 0);
  EXPECT_EQ(scratch.back(), 999);
  EXPECT_EQ(std::accumulate(scratch.begin(), scratch.end(), 0), 499'500);
  EXPECT_EQ(scratch.span().size(), 1000u);
}

TEST(ScratchTest, ExtendGivesRoomOfAnySize) {
  Scratch<std::uint64_t> scratch;
  scratch.push(7);
  std::uint64_t* more = scratch.extend(500);
  EXPECT_EQ(more, scratch.data() + 1);
  for (std::size_t i = 0; i < 500; ++i) more[i] = i;
  EXPECT_EQ(scratch[0], 7u);
  EXPECT_EQ(scratch.back(), 499u);
  scratch.shrink(1);
  EXPECT_EQ(scratch.size(), 1u);
}

TEST(ScratchTest, DoesNotAllocateOnceItHasGrown) {
  Scratch<int> scratch;
  scratch.extend(300);
  const int* data = scratch.data();
  const std::uint64_t growths = scratch_growths;
  for (int round = 0; round < 3; ++round) {
    scratch.clear();
    EXPECT_TRUE(scratch.empty());
    scratch.extend(300);
  }
  EXPECT_EQ(scratch_growths, growths);
  EXPECT_EQ(scratch.data(), data);
  scratch.extend(1000);
  EXPECT_EQ(scratch_growths, growths + 1);
}

TEST(ScratchTest, IsAlignedToACacheLine) {
  Scratch<char> scratch;
  scratch.push('a');
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scratch.data()) % kCacheLine, 0u);
}

TEST(ScratchTest, Moves) {
  Scratch<int> scratch;
  scratch.push(5);
  Scratch<int> other = std::move(scratch);
  EXPECT_EQ(other.size(), 1u);
  Scratch<int> third;
  third = std::move(other);
  EXPECT_EQ(third[0], 5);
}

}  // namespace
}  // namespace rankcast::base
