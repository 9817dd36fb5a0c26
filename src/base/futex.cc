#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "base/check.h"

namespace rankcast::base {
namespace {

const std::uint32_t* address_of(const std::atomic<std::uint32_t>& word) noexcept {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  return reinterpret_cast<const std::uint32_t*>(&word);
}

}  // namespace

FutexResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       std::uint32_t bitset, Deadline deadline) noexcept {
  timespec until{};
  timespec* timeout = nullptr;
  if (!deadline.is_never()) {
    // The kernel refuses a negative time.
    const std::int64_t ns = deadline.ns() > 0 ? deadline.ns() : 0;
    until.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
    until.tv_nsec = static_cast<long>(ns % 1'000'000'000);
    timeout = &until;
  }
  // Without FUTEX_PRIVATE_FLAG: the word may lie in memory of several processes. The timeout of the
  // bitset form is absolute, and on CLOCK_MONOTONIC.
  const long answer =
      syscall(SYS_futex, address_of(word), FUTEX_WAIT_BITSET, expected, timeout, nullptr, bitset);
  if (answer == 0 || errno == EINTR) return FutexResult::woken;
  if (errno == EAGAIN) return FutexResult::changed;
  RC_CHECK(errno == ETIMEDOUT);
  return FutexResult::timed_out;
}

int futex_wake(const std::atomic<std::uint32_t>& word, std::uint32_t bitset) noexcept {
  const long woken =
      syscall(SYS_futex, address_of(word), FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, bitset);
  RC_CHECK(woken >= 0);
  return static_cast<int>(woken);
}

}  // namespace rankcast::base
