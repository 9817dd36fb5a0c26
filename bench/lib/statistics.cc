#include "bench/lib/statistics.h"

#include <algorithm>
#include <cmath>

namespace rankcast::bench {

namespace {

double quantile_of_sorted(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  const double last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(q * last))];
}

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

double quantile(std::span<const double> values, double q) {
  return quantile_of_sorted(sorted_copy(values), q);
}

Summary summarize(std::span<const double> values) {
  if (values.empty()) return {};
  const std::vector<double> sorted = sorted_copy(values);
  return {quantile_of_sorted(sorted, 0.5), quantile_of_sorted(sorted, 0.99), sorted.front(),
          sorted.back()};
}

std::span<const double> BlockSeries::block(std::size_t index) const {
  const std::size_t begin = index == 0 ? 0 : block_ends[index - 1];
  return std::span(values).subspan(begin, block_ends[index] - begin);
}

double block_ratio(const BlockSeries& numerator, const BlockSeries& denominator) {
  std::vector<double> ratios;
  const std::size_t blocks = std::min(numerator.block_count(), denominator.block_count());
  for (std::size_t i = 0; i < blocks; ++i) {
    const double below = quantile(denominator.block(i), 0.5);
    if (numerator.block(i).empty() || below <= 0) continue;
    ratios.push_back(quantile(numerator.block(i), 0.5) / below);
  }
  return quantile(ratios, 0.5);
}

}  // namespace rankcast::bench
