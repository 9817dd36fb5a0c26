// One dispatch.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "rankcast/api.h"

namespace rankcast {

namespace detail {
class MeshCore;
struct RunState;
}  // namespace detail

/// What one rank did for a run. Times are microseconds since the submit began, by the machine's
/// monotonic clock.
struct RankReport {
  int rank = 0;
  double entry_us = 0;      ///< The rank took the frame.
  double exit_us = 0;       ///< Its last task had retired.
  double execution_us = 0;  ///< exit_us - entry_us.
  std::uint32_t tasks = 0;
  std::uint64_t heap_bytes = 0;  ///< Of the block that its temporaries shared.
};

/// What a finished run took.
struct RunReport {
  std::uint64_t dispatch_id = 0;
  double submit_us = 0;        ///< From entry of submit to its return.
  double total_us = 0;         ///< From entry of submit until the last rank had finished.
  double entry_spread_us = 0;  ///< First to last rank's entry.
  std::vector<RankReport> ranks;
};

/// A handle of one dispatch. Move-only. Dropping it detaches the run: it goes on, and its error, if
/// any, is logged once. `wait`, `wait_for` and `done` may be called by several threads at once. A
/// handle may outlive its mesh.
class RANKCAST_API Run {
 public:
  /// Empty: every function below but `valid` throws `Error(invalid_argument)`.
  Run() noexcept;
  ~Run();
  Run(Run&& other) noexcept;
  Run& operator=(Run&& other) noexcept;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool valid() const noexcept { return state_ != nullptr; }

  /// Unique in the mesh, growing in the order of publication, from 1.
  std::uint64_t dispatch_id() const;

  /// True when every rank has finished, well or not. Never blocks.
  bool done() const;

  /// Waits until every rank has finished; throws the run's first error. Every call throws the same
  /// one.
  void wait() const;

  /// As `wait`, for at most `timeout`; returns false when it ran out, and the run lives on. Throws
  /// `Error(invalid_argument)` for a timeout that is negative or not a number. Infinity waits for
  /// ever.
  bool wait_for(std::chrono::duration<double> timeout) const;

  /// Keeps what has not started from starting, on every rank; kernels that run see their abort word
  /// set and may give up. Returns at once. The run then ends by itself, and `wait` throws
  /// `cancelled`, or what had gone wrong before, unless everything had started already and ended
  /// well. What did not run has left its outputs undefined. A run that is done stays as it is.
  void cancel() const;

  /// Throws `Error(invalid_argument)` before the run is done.
  RunReport report() const;

 private:
  friend class detail::MeshCore;
  Run(std::shared_ptr<detail::MeshCore> mesh, detail::RunState* state) noexcept;

  std::shared_ptr<detail::MeshCore> mesh_;  // keeps the state's owner while the handle lives
  detail::RunState* state_ = nullptr;       // owned by the mesh, lent until this handle is gone
};

}  // namespace rankcast
