#include "bench/lib/reference_side.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/clock.h"
#include "bench/lib/statistics.h"

namespace rankcast::bench {

namespace {

constexpr int kPasses = 3;  // over all pairs, so that a drift of the machine meets them alike
constexpr int kRoundsAPass = 30;

}  // namespace

ReferenceSide::ReferenceSide(const Job& job, Reference& reference, Rounds& rounds, Packing packing,
                             std::chrono::nanoseconds limit)
    : reference_(reference), rounds_(rounds), packing_(packing), limit_(limit) {
  ranks_.resize(static_cast<std::size_t>(job.ranks()));
  std::iota(ranks_.begin(), ranks_.end(), 0);
}

void ReferenceSide::prepare() {
  const Rounds::Preparation preparation = rounds_.next();
  const auto write = [&](std::size_t tensor, std::span<const std::byte> bytes) {
    for (const int rank : ranks_) {
      const std::span<std::byte> to = reference_.tensor(rank, tensor);
      std::memcpy(to.data(), bytes.data() + static_cast<std::size_t>(rank) * to.size(), to.size());
    }
  };
  write(preparation.changed_tensor, preparation.changed);
  write(preparation.output_tensor, preparation.poison);
  output_ = preparation.output_tensor;
}

const RoundTimes& ReferenceSide::run_round() { return reference_.round(packing_, limit_); }

std::optional<Mismatch> ReferenceSide::verify() {
  outputs_.clear();
  for (const int rank : ranks_) {
    const std::span<const std::byte> from = reference_.tensor(rank, output_);
    outputs_.insert(outputs_.end(), from.begin(), from.end());
  }
  return rounds_.check(outputs_, ranks_);
}

std::vector<CalibrationResult> calibrate(Reference& reference, const std::function<void()>& idle,
                                         const std::function<void()>& checkpoint,
                                         std::chrono::nanoseconds budget) {
  std::vector<CalibrationResult> results;
  for (const Bell bell : {Bell::each, Bell::all}) {
    results.push_back({{bell, base::StoreKind::ordinary}, 0});
    if (base::has_streaming_stores()) results.push_back({{bell, base::StoreKind::streaming}, 0});
  }
  std::vector<std::vector<double>> totals(results.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      reference.use(results[i].choice);
      const base::Deadline deadline = base::Deadline::after(budget.count() / kPasses);
      for (int round = 0; round < kRoundsAPass && (round == 0 || !deadline.passed()); ++round) {
        checkpoint();
        idle();
        totals[i].push_back(reference.round(Packing::repacked).total_us);
      }
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) results[i].total_us = quantile(totals[i], 0.5);
  const auto best = std::min_element(results.begin(), results.end(),
                                     [](const CalibrationResult& a, const CalibrationResult& b) {
                                       return a.total_us < b.total_us;
                                     });
  reference.use(best->choice);
  return results;
}

}  // namespace rankcast::bench
