// A file that is either written whole or not there.
#pragma once

#include <string>
#include <string_view>

namespace rankcast::bench {

/// Where a report goes: a file, or "-" for standard output. A regular file appears, or replaces the
/// one of that name, only when it is complete; a device or a pipe is written directly. One thread.
class OutputFile {
 public:
  /// Finds out at once whether it can be written: throws `Error(invalid_argument)` naming the path
  /// and the reason when it cannot.
  explicit OutputFile(std::string path);
  /// Leaves nothing behind of a file that was not written.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  bool is_standard_output() const { return path_ == "-"; }

  /// Once. Throws `Error(unsupported)` with the path and the reason when the bytes cannot be
  /// written.
  void write(std::string_view text);

 private:
  std::string path_;
  std::string temporary_;  // beside the file; empty: the path itself is written
  int fd_ = -1;
};

}  // namespace rankcast::bench
