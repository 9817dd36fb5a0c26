#include "base/event_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/fault_point.h"
#include "base/fd.h"

namespace rankcast::base {

Result<EventFd> EventFd::create() {
  const int fd = RANKCAST_FAULT_POINT("base.eventfd") ? (errno = EMFILE, -1)
                                                      : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    return tl::unexpected(no_descriptor("eventfd"));
  }
  return EventFd(fd);
}

EventFd::EventFd(EventFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

EventFd& EventFd::operator=(EventFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

EventFd::~EventFd() {
  if (fd_ >= 0) close(fd_);
}

void EventFd::notify() const noexcept {
  const std::uint64_t one = 1;
  // A full counter (EAGAIN) is readable already, so nothing is lost; only a signal asks for another
  // try.
  while (write(fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

bool EventFd::drain() const noexcept {
  std::uint64_t taken = 0;
  ssize_t got = 0;
  while ((got = read(fd_, &taken, sizeof(taken))) < 0 && errno == EINTR) {
  }
  return got == static_cast<ssize_t>(sizeof(taken));
}

}  // namespace rankcast::base
