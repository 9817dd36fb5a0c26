// What the lock-free types of this folder are made of: the parameter that tests replace to step
// every interleaving.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/event_fd.h"
#include "base/futex.h"

namespace rankcast::base {

/// The machine's own atomics, futex and eventfd.
struct NativeAtomics {
  using Word32 = std::atomic<std::uint32_t>;
  using Word64 = std::atomic<std::uint64_t>;

  /// Data that is not atomic: ordered by the atomics around it.
  template <class T>
  using Plain = T;

  using Event = EventFd;

  static FutexResult wait(const Word32& word, std::uint32_t expected, std::uint32_t bitset,
                          Deadline deadline) noexcept {
    return futex_wait(word, expected, bitset, deadline);
  }
  static int wake(const Word32& word, std::uint32_t bitset) noexcept {
    return futex_wake(word, bitset);
  }
};

static_assert(NativeAtomics::Word32::is_always_lock_free &&
              NativeAtomics::Word64::is_always_lock_free);
static_assert(sizeof(NativeAtomics::Word32) == 4 && sizeof(NativeAtomics::Word64) == 8);

}  // namespace rankcast::base
