// The reference as a side of a comparison, and the measurement that picks its better form.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "bench/lib/reference.h"
#include "bench/lib/side.h"

namespace rankcast::bench {

/// The two ways of a reference to pack, over one loop: they share threads, memory and rounds, and
/// take turns. Borrowed `reference` and `rounds` must outlive it. Checks all ranks.
class ReferenceSide final : public Side {
 public:
  ReferenceSide(const Job& job, Reference& reference, Rounds& rounds, Packing packing,
                std::chrono::nanoseconds limit);

  void prepare() override;
  const RoundTimes& run_round() override;
  std::optional<Mismatch> verify() override;

 private:
  Reference& reference_;  // borrowed, outlived as the class says
  Rounds& rounds_;        // the same
  Packing packing_;
  std::chrono::nanoseconds limit_;
  std::size_t output_ = 0;
  std::vector<int> ranks_;
  std::vector<std::byte> outputs_;
};

/// What a calibration found for one way of ringing and storing.
struct CalibrationResult {
  ReferenceChoice choice;
  double total_us = 0;  ///< Median of its rounds.
};

/// Runs repacked rounds with every bell and every kind of store, idling before each round with
/// `idle`, as the measured rounds will, and leaves the reference at the pair with the smallest
/// median total. Results are in the order tried. Takes about `budget` for each pair, at least 3
/// rounds. Calls `checkpoint` before each round; what that throws passes through.
std::vector<CalibrationResult> calibrate(Reference& reference, const std::function<void()>& idle,
                                         const std::function<void()>& checkpoint,
                                         std::chrono::nanoseconds budget);

}  // namespace rankcast::bench
