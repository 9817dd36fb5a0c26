// Ctrl-C ends a command at its next safe point.
#pragma once

#include <csignal>

namespace rankcast::tools {

/// While one lives, the first SIGINT or SIGTERM is only noted; a second one ends the program at
/// once. One at a time in a process.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Throws `Interrupted` when a signal has come.
  void throw_if_interrupted() const;

 private:
  struct sigaction before_int_{};
  struct sigaction before_term_{};
};

}  // namespace rankcast::tools
