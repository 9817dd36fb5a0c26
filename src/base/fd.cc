#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/fault_point.h"

namespace rankcast::base {

namespace {

Status system_failure(const char* what) {
  return failure(ErrorCode::internal, "{}: {}", what, std::strerror(errno));
}

// Both ends, or the failure of a call of that name.
Result<std::pair<Fd, Fd>> both_ends(const char* call, int result, const std::array<int, 2>& fds) {
  if (result != 0) return tl::unexpected(no_descriptor(call));
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

// A message's descriptors travel beside its bytes.
struct Ancillary {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxSentFds * sizeof(int))> bytes{};
};

}  // namespace

void Fd::reset() noexcept {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Status no_descriptor(const char* call) {
  const bool none_left = errno == EMFILE || errno == ENFILE;
  return failure(none_left ? ErrorCode::out_of_memory : ErrorCode::internal, "{}: {}{}", call,
                 std::strerror(errno),
                 none_left ? "; raise the limit of open files (ulimit -n)" : "");
}

Result<Fd> open_pidfd(int pid) {
  Fd fd;
  if (RANKCAST_FAULT_POINT("base.pidfd")) {
    errno = EMFILE;
  } else {
    fd = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  }
  if (fd.empty()) return tl::unexpected(no_descriptor("pidfd_open"));
  return fd;
}

Result<std::pair<Fd, Fd>> socket_pair() {
  std::array<int, 2> fds{};
  const int result = RANKCAST_FAULT_POINT("base.socket_pair")
                         ? (errno = EMFILE, -1)
                         : socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data());
  return both_ends("socketpair", result, fds);
}

Result<std::pair<Fd, Fd>> output_pipe() {
  std::array<int, 2> fds{};
  const int result = RANKCAST_FAULT_POINT("base.output_pipe") ? (errno = EMFILE, -1)
                                                              : pipe2(fds.data(), O_CLOEXEC);
  auto ends = both_ends("pipe2", result, fds);
  if (ends && fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0)
    return tl::unexpected(system_failure("fcntl"));
  return ends;
}

Status send_message(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  RC_CHECK(fds.size() <= kMaxSentFds && !bytes.empty());
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  Ancillary ancillary;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = ancillary.bytes.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(control), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = RANKCAST_FAULT_POINT("base.send_message")
               ? (errno = EPERM, -1)
               : sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  if (errno == EPIPE || errno == ECONNRESET) {
    return failure(ErrorCode::rank_lost, "the other end of the socket is gone");
  }
  return failure(errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS
                     ? ErrorCode::out_of_memory
                     : ErrorCode::internal,
                 "sendmsg: {}", std::strerror(errno));
}

Result<Message> receive_message(int socket, Deadline deadline) {
  Message message;
  Ancillary ancillary;
  for (;;) {
    // The length first: messages differ, and one that does not fit would be cut.
    const ssize_t length = recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == ECONNRESET) return message;
    if (length < 0 && errno != EAGAIN) return tl::unexpected(system_failure("recv"));
    if (length >= 0) {
      message.bytes.resize(static_cast<std::size_t>(length));
      break;
    }
    if (!wait_readable(socket, deadline)) {
      return unexpected_failure(ErrorCode::deadline_exceeded, "no message came in time");
    }
  }
  std::byte nothing{};
  iovec part{message.bytes.empty() ? &nothing : message.bytes.data(), message.bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = ancillary.bytes.data();
  header.msg_controllen = ancillary.bytes.size();
  ssize_t received = 0;
  do {
    received = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return tl::unexpected(system_failure("recvmsg"));
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
      message.fds.emplace_back(fd);
    }
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      static_cast<std::size_t>(received) != message.bytes.size()) {
    return unexpected_failure(ErrorCode::internal, "a message was cut");
  }
  return message;
}

bool wait_readable(int fd, Deadline deadline) noexcept {
  return wait_either_readable(fd, -1, deadline);
}

bool wait_either_readable(int first, int second, Deadline deadline) noexcept {
  for (;;) {
    // poll ignores a negative descriptor.
    std::array<pollfd, 2> descriptors{pollfd{first, POLLIN, 0}, pollfd{second, POLLIN, 0}};
    int timeout_ms = -1;
    if (!deadline.is_never()) {
      constexpr std::int64_t kMostMs = std::numeric_limits<int>::max();
      timeout_ms =
          static_cast<int>(std::min((deadline.remaining_ns() + 999'999) / 1'000'000, kMostMs));
    }
    const int ready = poll(descriptors.data(), descriptors.size(), timeout_ms);
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
  }
}

}  // namespace rankcast::base
