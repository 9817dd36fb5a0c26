// What a benchmark says about a series of measurements.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rankcast::bench {

/// Of one series, in the unit of the series. All zero for an empty one.
struct Summary {
  double median = 0;
  double p99 = 0;
  double min = 0;
  double max = 0;
};

/// The value below which the fraction `q` (0 to 1) of the values lies: the nearest of them, none
/// made up in between. 0 for an empty series. Sorts a copy.
double quantile(std::span<const double> values, double q);

/// Median, 99th percentile and extremes; one sorted copy.
Summary summarize(std::span<const double> values);

/// One series cut into the blocks in which it was measured.
struct BlockSeries {
  std::vector<double> values;
  std::vector<std::size_t> block_ends;  ///< One a block: index after its last value; ascending.

  void add(double value) { values.push_back(value); }
  void end_block() { block_ends.push_back(values.size()); }
  std::size_t block_count() const { return block_ends.size(); }
  std::span<const double> block(std::size_t index) const;
};

/// How many times `numerator` is `denominator`: the median, over blocks that were measured side by
/// side, of (median of the numerator's block / median of the denominator's). A drift of the machine
/// meets both halves of a block alike, so it cancels. Blocks that are empty on a side, or whose
/// denominator is 0, are left out; 0 when none is left.
double block_ratio(const BlockSeries& numerator, const BlockSeries& denominator);

}  // namespace rankcast::bench
