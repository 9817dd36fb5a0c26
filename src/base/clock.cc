#include "base/clock.h"

#include <ctime>

namespace rankcast::base {

std::int64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

Deadline Deadline::after(std::int64_t ns) noexcept {
  const std::int64_t now = now_ns();
  return ns >= kNever - now ? never() : at(now + ns);
}

std::int64_t Deadline::remaining_ns() const noexcept {
  if (is_never()) return kNever;
  const std::int64_t now = now_ns();
  return now >= ns_ ? 0 : ns_ - now;
}

}  // namespace rankcast::base
