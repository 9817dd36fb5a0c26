// Timelines (PROTOCOL P4): how far a lane has come.
//
//   TimelineValue, 64 bits    63                    20 19              0
//                            +------------------------+-----------------+
//                            |       run number       |  tasks retired  |
//                            +------------------------+-----------------+
//   run number      44 bits   17,592,186,044,416 runs: 5.5 years at 100,000 runs a second, then the
//   mesh must be reopened tasks retired   20 bits   1,048,575 tasks of one run in one lane: a
//   larger frame is refused when it is laid out
//
// Values of one lane compare as plain numbers. A lane counts tasks of the retired prefix: (run, n)
// means that the first n tasks of that run's frame here, and all runs before it in this lane, have
// retired. A frame holds ordinals; the record supplies the run number.
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

#include "base/atomic.h"
#include "base/check.h"
#include "base/native_atomics.h"

namespace rankcast::base {

struct TimelineValue {
  static constexpr int kTaskBits = 20;
  static constexpr int kRunBits = 64 - kTaskBits;
  static constexpr std::uint64_t kMaxTasks = (std::uint64_t{1} << kTaskBits) - 1;
  static constexpr std::uint64_t kMaxRun = (std::uint64_t{1} << kRunBits) - 1;

  std::uint64_t bits = 0;

  /// Both must lie in range (checked without NDEBUG).
  static constexpr TimelineValue make(std::uint64_t run, std::uint64_t tasks) noexcept {
    RC_DCHECK(run <= kMaxRun && tasks <= kMaxTasks);
    return TimelineValue{(run << kTaskBits) | tasks};
  }
  constexpr std::uint64_t run() const noexcept { return bits >> kTaskBits; }
  constexpr std::uint64_t tasks() const noexcept { return bits & kMaxTasks; }

  friend constexpr bool operator==(TimelineValue, TimelineValue) noexcept = default;
  friend constexpr auto operator<=>(TimelineValue, TimelineValue) noexcept = default;
};

/// One a lane, in memory that host and ranks share; all zero bytes are its initial state.
/// `advance`: one writer at a time, the lane's rank (the keeper once that rank is known to be
/// gone). The rest: any thread of any process.
template <class Atomics = NativeAtomics>
class alignas(kCacheLine) BasicTimeline {
 public:
  BasicTimeline() noexcept = default;
  BasicTimeline(const BasicTimeline&) = delete;
  BasicTimeline& operator=(const BasicTimeline&) = delete;

  /// Everything that the writer did before is visible to whoever sees the value. Never goes back
  /// (checked without NDEBUG). The writer then rings whoever may wait: Doorbell::ring_waiting,
  /// HostWaiters::notify, KeeperSignal::notify_if.
  void advance(TimelineValue value) noexcept {
    // relaxed: the only writer reads its own last store
    RC_DCHECK(load_relaxed(value_) <= value.bits);
    store_seq_cst(value_, value.bits);  // pairs: timeline-advance
  }

  /// For the keeper, once the rank is known to be gone: whatever it had stored.
  void take_over(TimelineValue value) noexcept {
    store_seq_cst(value_, value.bits);  // pairs: timeline-advance
  }

  /// For looks that precede or follow a sleep, and after KeeperSignal::want.
  TimelineValue load() const noexcept { return TimelineValue{load_seq_cst(value_)}; }
  bool reached(TimelineValue value) const noexcept { return load() >= value; }

  /// For looks that no sleep depends on.
  TimelineValue peek() const noexcept {
    return TimelineValue{load_acquire(value_)};  // pairs: timeline-advance
  }
  bool reached_acquire(TimelineValue value) const noexcept { return peek() >= value; }

 private:
  // Written by: the lane's rank (or the keeper for a dead rank). Read by: host threads, keeper,
  // ranks that wait. Ordered by: seq_cst in advance() and load(); peek() is the acquire of the same
  // store (pairs: timeline-advance).
  typename Atomics::Word64 value_{};
};

using Timeline = BasicTimeline<>;

static_assert(std::is_trivially_copyable_v<TimelineValue> && sizeof(TimelineValue) == 8);
static_assert(std::is_standard_layout_v<Timeline> && sizeof(Timeline) == kCacheLine);

}  // namespace rankcast::base
