// Bounded spinning before a sleep: bounded by time, since a turn costs nothing on an idle core and
// a whole scheduler tick on a crowded one.
#pragma once

#include <sched.h>

#include <cstdint>

#include "base/clock.h"

namespace rankcast::base {

/// How a wait behaves before it sleeps.
struct SpinPolicy {
  std::int64_t spin_ns = 100'000;  ///< How long; 0: not at all.
  bool yield = false;  ///< Give the core away each turn: when there are more ranks than cores.

  /// Sleeps at once.
  static constexpr SpinPolicy none() noexcept { return SpinPolicy{0, false}; }
};

/// Tells the processor that this is a spinning turn.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// One spin. Used by one thread: `do { look } while (spinner.keep_spinning());`. Time counts from
/// the first turn. Cost of a turn: a pause, and the clock (25 ns) every 16th turn; with yielding a
/// system call and the clock each.
class Spinner {
 public:
  explicit Spinner(SpinPolicy policy) noexcept : policy_(policy) {}

  /// Takes one turn; false once the time is over, and it is time to sleep.
  bool keep_spinning() noexcept {
    if (policy_.spin_ns <= 0) return false;
    if (policy_.yield) {
      sched_yield();
      return in_time();
    }
    spin_pause();
    return (++turn_ % kTurnsPerClock != 1) || in_time();
  }

 private:
  static constexpr std::uint32_t kTurnsPerClock = 16;

  bool in_time() noexcept {
    const std::int64_t now = now_ns();
    if (end_ns_ == 0) end_ns_ = now + policy_.spin_ns;
    return now < end_ns_;
  }

  SpinPolicy policy_;
  std::int64_t end_ns_ = 0;
  std::uint32_t turn_ = 0;
};

}  // namespace rankcast::base
