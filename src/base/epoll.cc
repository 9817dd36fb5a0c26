#include "base/epoll.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fault_point.h"

namespace rankcast::base {

Result<Epoll> Epoll::create() {
  Fd fd;
  if (RANKCAST_FAULT_POINT("base.epoll")) {
    errno = EMFILE;
  } else {
    fd = Fd(epoll_create1(EPOLL_CLOEXEC));
  }
  if (fd.empty()) return tl::unexpected(no_descriptor("epoll_create1"));
  return Epoll(std::move(fd));
}

Status Epoll::add(int fd) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  const int added = RANKCAST_FAULT_POINT("base.epoll_add")
                        ? (errno = ENOSPC, -1)
                        : epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event);
  if (added == 0) return {};
  return failure(ErrorCode::internal, "cannot watch descriptor {}: {}", fd, std::strerror(errno));
}

void Epoll::remove(int fd) const noexcept { epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }

}  // namespace rankcast::base
