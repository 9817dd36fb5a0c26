// Host threads that wait for a completion (PROTOCOL P3, last but one bullet): a counter, not a bit.
//
// Waiter: raises the counter, looks again, sleeps, lowers it. Rank: stores its timeline, then reads
// the counter; if it is not 0, bumps the word and wakes all. Both pairs are sequentially
// consistent: one sees the other.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/atomic.h"
#include "base/doorbell.h"
#include "base/native_atomics.h"
#include "base/spin.h"

namespace rankcast::base {

/// One a mesh, in memory that host and ranks share; all zero bytes are its initial state. Any
/// thread, any number. A waiter that dies with its process leaves the counter raised: completions
/// then cost a needless wake, no more.
template <class Atomics = NativeAtomics>
class BasicHostWaiters {
 public:
  BasicHostWaiters() noexcept = default;
  BasicHostWaiters(const BasicHostWaiters&) = delete;
  BasicHostWaiters& operator=(const BasicHostWaiters&) = delete;

  /// Called after a completion is stored (seq_cst). Returns the futex wakes made: 0 or 1. One load
  /// if nobody waits.
  int notify() noexcept {
    if (load_seq_cst(count_) == 0) return 0;
    fetch_add_seq_cst(bell_, 1u);
    Atomics::wake(bell_, kFutexAll);
    return 1;
  }

  /// Spins as `spin` says, then sleeps, until `ready()` is true or the deadline passes. `ready`
  /// must not throw and must use seq_cst loads. A deadline that passes is answered by one more
  /// look.
  template <class Ready>
  WaitResult wait(Ready ready, SpinPolicy spin, Deadline deadline) noexcept {
    Spinner spinner(spin);
    do {
      if (ready()) return WaitResult::ready;
    } while (spinner.keep_spinning());
    fetch_add_seq_cst(count_, 1u);
    const WaitResult result = wait_counted(ready, deadline);
    fetch_sub_seq_cst(count_, 1u);
    return result;
  }

  /// How many threads are past spinning: for reports and tests; may be old on return.
  std::uint32_t count() const noexcept { return load_seq_cst(count_); }

 private:
  template <class Ready>
  WaitResult wait_counted(Ready& ready, Deadline deadline) noexcept {
    for (;;) {
      const std::uint32_t heard = load_seq_cst(bell_);
      if (ready()) return WaitResult::ready;
      if (Atomics::wait(bell_, heard, kFutexAll, deadline) == FutexResult::timed_out) {
        return ready() ? WaitResult::ready : WaitResult::timed_out;
      }
    }
  }

  // Written by: waiters. Read by: ranks after each completion. Ordered by: seq_cst, raised before
  // the waiter's last look, read after the rank's store. A line of its own: ranks read it on every
  // completion and it hardly changes.
  alignas(kCacheLine) typename Atomics::Word32 count_{};
  // Written by: ranks that found a waiter. Read by: waiters, and the kernel. Ordered by: seq_cst,
  // before the wake.
  alignas(kCacheLine) typename Atomics::Word32 bell_{};
};

using HostWaiters = BasicHostWaiters<>;

static_assert(std::is_standard_layout_v<HostWaiters> &&
              std::is_trivially_destructible_v<HostWaiters>);
static_assert(sizeof(HostWaiters) == 2 * kCacheLine);

}  // namespace rankcast::base
