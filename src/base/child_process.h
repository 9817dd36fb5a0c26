// A process that this one starts, watches and ends.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace rankcast::base {

/// One started process. Move-only; on destruction a process that still runs is killed and reaped.
/// One thread at a time.
class ChildProcess {
 public:
  /// The descriptors that the child has, beside its standard ones. All others are closed in it.
  struct Files {
    int standard_output = -1;  // -1: this process's
    int standard_error = -1;   // the same
    int third = -1;            // becomes descriptor 3
  };

  /// Starts a program by posix_spawn: in a process group of its own, so that a key at the terminal
  /// does not reach it, with no signal blocked or ignored and an empty standard input. Fails naming
  /// the program and the reason: `out_of_memory` when the system has no process or descriptor left,
  /// `unsupported` when the file cannot be run.
  static Result<ChildProcess> spawn(const std::string& program,
                                    std::span<const std::string> arguments, const Files& files);

  ChildProcess() noexcept = default;
  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  int pid() const noexcept { return pid_; }
  /// Readable once the process has ended. -1 before spawn.
  int pidfd() const noexcept { return pidfd_.get(); }

  /// Sends SIGKILL; nothing if it has ended.
  void kill() noexcept;
  /// If the process has ended: reaps it, once, and returns true; `end` then says how.
  bool reap() noexcept;
  bool reaped() const noexcept { return reaped_; }
  /// "exited with status 3", "was killed by signal 9 (Killed)". Once reaped.
  const std::string& end() const noexcept { return end_; }

 private:
  int pid_ = -1;
  Fd pidfd_;
  bool reaped_ = false;
  std::string end_;
};

}  // namespace rankcast::base
