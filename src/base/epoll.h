// Many descriptors behind one that `poll` can wait for.
#pragma once

#include "base/fd.h"
#include "base/status.h"

namespace rankcast::base {

/// Readable while one of its descriptors is readable or at its end. Any thread may add and remove
/// while another polls. A descriptor is removed before it is closed: a copy of it elsewhere would
/// keep the entry alive.
class Epoll {
 public:
  /// Fails with `out_of_memory` when the process has no descriptor left.
  static Result<Epoll> create();

  /// Fails with `internal`: the system refuses more.
  Status add(int fd) const;
  /// Nothing for one that was not added.
  void remove(int fd) const noexcept;

  int fd() const noexcept { return fd_.get(); }

 private:
  explicit Epoll(Fd fd) noexcept : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace rankcast::base
