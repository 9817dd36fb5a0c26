#include "memory/deferred_free.h"

#include <gtest/gtest.h>

namespace rankcast::memory {
namespace {

Block block_of(std::uint64_t bytes) {
  return Block{.segment = 0, .node = 0, .offset = 0, .bytes = bytes};
}

TEST(DeferredFreesTest, NothingWaitsAtFirst) {
  DeferredFrees frees;
  EXPECT_EQ(frees.oldest_run(), std::nullopt);
  EXPECT_TRUE(frees.take_ready(UINT64_MAX).empty());
  EXPECT_EQ(frees.bytes(), 0U);
}

TEST(DeferredFreesTest, WaitsForTheRunThatWasNoted) {
  DeferredFrees frees;
  frees.add(3, block_of(256), 10);
  EXPECT_EQ(frees.oldest_run(), 10U);
  EXPECT_TRUE(frees.take_ready(9).empty());
  EXPECT_TRUE(frees.take_ready(10).empty());  // run 10 itself has not retired
  EXPECT_EQ(frees.bytes(), 256U);
  const auto ready = frees.take_ready(11);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].rank, 3);
  EXPECT_EQ(ready[0].run, 10U);
  EXPECT_EQ(ready[0].block, block_of(256));
  EXPECT_EQ(frees.bytes(), 0U);
  EXPECT_EQ(frees.size(), 0U);
  EXPECT_EQ(frees.oldest_run(), std::nullopt);
}

TEST(DeferredFreesTest, TakesInOrderAndLeavesTheRest) {
  DeferredFrees frees;
  const std::uint64_t runs[] = {0, 0, 2, 5, 5, 9};
  std::uint64_t bytes = 0;
  for (int i = 0; i < 6; ++i) {
    frees.add(i, block_of(256U << i), runs[i]);
    bytes += 256U << i;
  }
  EXPECT_EQ(frees.bytes(), bytes);
  const auto ready = frees.take_ready(5);
  ASSERT_EQ(ready.size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ready[static_cast<std::size_t>(i)].rank, i);
  EXPECT_EQ(frees.size(), 3U);
  EXPECT_EQ(frees.bytes(), (256U << 3) + (256U << 4) + (256U << 5));
  EXPECT_EQ(frees.oldest_run(), 5U);
  EXPECT_EQ(frees.take_ready(6).size(), 2U);
  EXPECT_EQ(frees.take_ready(9).size(), 0U);
  EXPECT_EQ(frees.take_ready(10).size(), 1U);
}

TEST(DeferredFreesDeathTest, RunsThatGoBackAreOurBug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  DeferredFrees frees;
  frees.add(0, block_of(256), 10);
  EXPECT_DEATH(frees.add(0, block_of(256), 9), "check failed");
}

}  // namespace
}  // namespace rankcast::memory
