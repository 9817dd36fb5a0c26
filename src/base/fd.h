// An owned file descriptor, and descriptors of processes and sockets made of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace rankcast::base {

/// Owns one descriptor and closes it. Move-only.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const noexcept { return fd_; }
  bool empty() const noexcept { return fd_ < 0; }
  void reset() noexcept;
  /// Gives the descriptor away.
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// The failure of a system call that makes descriptors, from errno: `out_of_memory` and what to do
/// when there are none left, else `internal`.
Status no_descriptor(const char* call);

/// A descriptor of a process that becomes readable when it has ended. Fails as no_descriptor says.
Result<Fd> open_pidfd(int pid);

/// Both ends of a connected socket that keeps messages apart (SOCK_SEQPACKET), close-on-exec.
Result<std::pair<Fd, Fd>> socket_pair();

/// Both ends of a pipe, close-on-exec: first to read, second to write. Reading does not block.
Result<std::pair<Fd, Fd>> output_pipe();

inline constexpr std::size_t kMaxSentFds = 8;

/// Sends one message with descriptors, at once: `out_of_memory` when the receiver has left no room,
/// `rank_lost` when it is gone. At most kMaxSentFds descriptors, which stay the caller's.
Status send_message(int socket, std::span<const std::byte> bytes, std::span<const int> fds);

/// One received message; `bytes` is empty at the end of the connection.
struct Message {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
};

/// Receives the next message; waits for it until the deadline. `deadline_exceeded` when there is
/// none, `internal` for one that was cut.
Result<Message> receive_message(int socket, Deadline deadline);

/// Waits until the descriptor (or one of two) is readable or at its end; false at the deadline.
bool wait_readable(int fd, Deadline deadline) noexcept;
bool wait_either_readable(int first, int second, Deadline deadline) noexcept;

}  // namespace rankcast::base
