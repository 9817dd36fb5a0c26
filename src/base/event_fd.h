// An owned eventfd: what a rank writes to wake the keeper out of `poll`.
#pragma once

#include "base/status.h"

namespace rankcast::base {

/// Owns one eventfd, close-on-exec and non-blocking. Move-only. `notify` and `drain` may be called
/// by any thread while the object lives.
class EventFd {
 public:
  /// Fails with `out_of_memory` when the process has no descriptor left.
  static Result<EventFd> create();

  /// Takes over a descriptor that was inherited or received; closes it in the end.
  static EventFd adopt(int fd) noexcept { return EventFd(fd); }

  EventFd() noexcept = default;
  EventFd(EventFd&& other) noexcept;
  EventFd& operator=(EventFd&& other) noexcept;
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;
  ~EventFd();

  /// Makes it readable. One system call, never blocks; several notifications before a drain are
  /// one.
  void notify() const noexcept;

  /// Takes all notifications; true if there was one. One system call.
  bool drain() const noexcept;

  /// For `poll` (POLLIN); -1 if empty. Owned by this object.
  int fd() const noexcept { return fd_; }

 private:
  explicit EventFd(int fd) noexcept : fd_(fd) {}

  int fd_ = -1;
};

}  // namespace rankcast::base
