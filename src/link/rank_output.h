// What a process rank prints: passed on, so that it is seen as if this process had printed it, and
// its last lines kept for errors.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoll.h"
#include "base/fd.h"
#include "base/status.h"

namespace rankcast::link {

/// Text on its way to a descriptor of this process.
struct Printed {
  int to = -1;
  std::string text;
};

/// Writes it all, in order; what nobody reads is dropped. May wait for a reader: no lock is held.
void pass_on(const std::vector<Printed>& all) noexcept;

/// The reading ends of a rank's two pipes. One thread at a time.
class RankOutput {
 public:
  /// What the rank's process gets.
  struct Ends {
    base::Fd standard_output;
    base::Fd standard_error;
  };

  /// Once: makes the pipes, of which `ends` gets the writing ends; `events` watches them. Fails
  /// with `out_of_memory` when the process has no descriptor left.
  base::Status open(const base::Epoll& events, Ends* ends);

  /// Takes what is there, without waiting, and adds it to `all`.
  void take(const base::Epoll& events, std::vector<Printed>* all);

  /// Before destruction.
  void close(const base::Epoll& events) noexcept;

  /// "; it printed last: ..." with the last lines of both, or nothing.
  std::string describe() const;

 private:
  struct Stream {
    base::Fd pipe;
    int to = -1;
  };

  void keep(std::string_view text);

  std::array<Stream, 2> streams_;
  std::string kept_;
};

}  // namespace rankcast::link
