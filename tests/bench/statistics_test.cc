#include "bench/lib/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace rankcast::bench {
namespace {

BlockSeries blocks(const std::vector<std::vector<double>>& values) {
  BlockSeries series;
  for (const std::vector<double>& block : values) {
    for (const double value : block) series.add(value);
    series.end_block();
  }
  return series;
}

TEST(Summary, OfAHundredValuesInAnyOrder) {
  std::vector<double> values(101);
  std::iota(values.begin(), values.end(), 0.0);
  std::rotate(values.begin(), values.begin() + 37, values.end());
  const Summary summary = summarize(values);
  EXPECT_EQ(summary.median, 50);
  EXPECT_EQ(summary.p99, 99);
  EXPECT_EQ(summary.min, 0);
  EXPECT_EQ(summary.max, 100);
}

TEST(Summary, OfOneValueIsThatValue) {
  const Summary summary = summarize(std::vector<double>{4.5});
  EXPECT_EQ(summary.median, 4.5);
  EXPECT_EQ(summary.p99, 4.5);
  EXPECT_EQ(summary.min, 4.5);
  EXPECT_EQ(summary.max, 4.5);
}

TEST(Summary, OfNothingIsZero) {
  const Summary summary = summarize({});
  EXPECT_EQ(summary.median, 0);
  EXPECT_EQ(summary.max, 0);
}

TEST(Quantile, TakesAValueThatIsThere) {
  const std::vector<double> values{10, 1, 7};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.5), 7);
  EXPECT_EQ(quantile(values, 0.7), 7);
  EXPECT_EQ(quantile(values, 0.8), 10);
  EXPECT_EQ(quantile(values, 1), 10);
}

TEST(BlockSeries, CutsWhereTheBlocksEnd) {
  const BlockSeries series = blocks({{1, 2}, {}, {3}});
  ASSERT_EQ(series.block_count(), 3U);
  EXPECT_EQ(series.block(0).size(), 2U);
  EXPECT_EQ(series.block(0)[1], 2);
  EXPECT_TRUE(series.block(1).empty());
  EXPECT_EQ(series.block(2)[0], 3);
}

TEST(BlockRatio, IsTheMedianOfTheBlocksRatiosNotTheRatioOfMedians) {
  // Ratios 2, 3, 10; the ratio of the medians of all would be 60 / 3.
  const BlockSeries numerator = blocks({{2, 2, 2}, {60, 60, 60}, {30, 30, 30}});
  const BlockSeries denominator = blocks({{1, 1, 1}, {20, 20, 20}, {3, 3, 3}});
  EXPECT_EQ(block_ratio(numerator, denominator), 3);
}

TEST(BlockRatio, DriftThatMeetsBothSidesCancels) {
  BlockSeries numerator;
  BlockSeries denominator;
  for (const double drift : {1.0, 7.0, 2.0, 30.0}) {
    for (const double value : {1.0, 2.0, 3.0}) {
      numerator.add(3 * value * drift);
      denominator.add(value * drift);
    }
    numerator.end_block();
    denominator.end_block();
  }
  EXPECT_DOUBLE_EQ(block_ratio(numerator, denominator), 3);
}

TEST(BlockRatio, OneOutlierInABlockDoesNotCount) {
  const BlockSeries numerator = blocks({{4, 4, 4000}});
  const BlockSeries denominator = blocks({{2, 2, 2}});
  EXPECT_EQ(block_ratio(numerator, denominator), 2);
}

TEST(BlockRatio, LeavesOutBlocksThatSayNothing) {
  const BlockSeries numerator = blocks({{5}, {}, {8}, {9}});
  const BlockSeries denominator = blocks({{0}, {1}, {2}});
  EXPECT_EQ(block_ratio(numerator, denominator), 4);
  EXPECT_EQ(block_ratio(BlockSeries{}, denominator), 0);
}

}  // namespace
}  // namespace rankcast::bench
