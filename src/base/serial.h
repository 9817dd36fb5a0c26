// Numbers that tell things of one process apart.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic.h"

namespace rankcast::base {

/// A number that no call of this process has returned before, from 1. Any thread; one atomic add.
inline std::uint64_t next_serial() noexcept {
  // Written by and read by: every caller. Ordered by: nothing; only that each value is new counts.
  static std::atomic<std::uint64_t> last{0};
  return fetch_add_relaxed(last, std::uint64_t{1}) + 1;  // relaxed: a number, told to nobody
}

}  // namespace rankcast::base
