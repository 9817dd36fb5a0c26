// One line on a terminal that says how far a command is.
#pragma once

#include <cstdint>
#include <string>

namespace rankcast::tools {

/// Writes to stderr, and only when that is a terminal. One thread.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  /// Clears the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` from 0 to 1. At most ten times a second it is drawn.
  void show(double done);
  void clear();

 private:
  std::string what_;
  bool on_terminal_;
  bool drawn_ = false;
  std::int64_t next_ns_ = 0;
};

}  // namespace rankcast::tools
