// Our own futex call, in its shared form: it works between threads and, on a word in shared memory,
// between processes, where std::atomic::wait never wakes.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace rankcast::base {

enum class FutexResult : std::uint8_t {
  woken,      ///< Woken, or a signal came: the caller looks at its condition again either way.
  changed,    ///< The word did not hold the expected value: did not sleep.
  timed_out,  ///< The deadline passed.
};

/// A bit set that every wake matches.
inline constexpr std::uint32_t kFutexAll = 0xffffffffu;

/// Sleeps while `word` holds `expected`, until a wake whose bit set meets `bitset` (which must not
/// be 0). Any thread. The kernel compares the word under its own lock, after a full barrier in the
/// waker: a wake that follows a change of the word is never lost. A deadline that has passed
/// already answers timed_out, or changed.
FutexResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       std::uint32_t bitset, Deadline deadline) noexcept;

/// Wakes all sleepers on `word` whose bit set meets `bitset`; returns how many. About 0.5 us when
/// nobody sleeps.
int futex_wake(const std::atomic<std::uint32_t>& word, std::uint32_t bitset) noexcept;

}  // namespace rankcast::base
