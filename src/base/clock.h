// Time: nanoseconds of the monotonic clock, the same clock in every process of one machine.
#pragma once

#include <cstdint>
#include <limits>

namespace rankcast::base {

/// Nanoseconds of CLOCK_MONOTONIC. Any thread; about 25 ns.
std::int64_t now_ns() noexcept;

/// A moment after which a wait gives up, absolute on CLOCK_MONOTONIC. A plain value.
class Deadline {
 public:
  /// A deadline that never passes; the default.
  constexpr Deadline() noexcept = default;
  static constexpr Deadline never() noexcept { return Deadline(); }

  /// `ns` nanoseconds from now; already passed for `ns` <= 0; never if the sum leaves the 64-bit
  /// range.
  static Deadline after(std::int64_t ns) noexcept;

  /// At this reading of now_ns().
  static constexpr Deadline at(std::int64_t ns) noexcept {
    Deadline deadline;
    deadline.ns_ = ns;
    return deadline;
  }

  constexpr bool is_never() const noexcept { return ns_ == kNever; }

  /// The reading of now_ns() at which it passes; the largest int64 if never.
  constexpr std::int64_t ns() const noexcept { return ns_; }

  /// Reads the clock unless it is never.
  bool passed() const noexcept { return !is_never() && now_ns() >= ns_; }

  /// Nanoseconds left, 0 when passed; the largest int64 if never.
  std::int64_t remaining_ns() const noexcept;

  friend constexpr bool operator==(Deadline, Deadline) noexcept = default;

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  std::int64_t ns_ = kNever;
};

}  // namespace rankcast::base
