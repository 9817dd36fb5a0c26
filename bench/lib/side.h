// One side of a comparison: a mesh, or the bare loop it is measured against.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "bench/lib/job.h"

namespace rankcast::bench {

/// What one round took, in microseconds.
struct RoundTimes {
  double submit_us = 0;          ///< Until every rank had been handed its work.
  double wait_us = 0;            ///< From there until every rank had finished.
  double total_us = 0;           ///< The sum of both.
  double entry_spread_us = 0;    ///< First to last rank's entry.
  std::vector<double> entry_us;  ///< One a rank, since the submit began.
};

/// Runs the rounds of a job one after another. One thread.
class Side {
 public:
  virtual ~Side() = default;

  /// Overwrites all outputs and changes one element of one input on each rank. Not timed.
  virtual void prepare() = 0;
  /// The timed part: submit and wait. Valid until the next call. Throws `Error`; a round that does
  /// not end in time is `deadline_exceeded`.
  virtual const RoundTimes& run_round() = 0;
  /// Looks at every output of every rank. Not timed.
  virtual std::optional<Mismatch> verify() = 0;
};

}  // namespace rankcast::bench
