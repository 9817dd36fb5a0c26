// When runs in flight stand still: told once, until something moves again.
//
// The keeper looks, and never more often than once a period; between runs it does not look at all.
// So a report comes between one and two periods after the last thing that moved. What moves is a
// lane's timeline, or the task that a rank says it is at.
//
// Cost. Off: nothing but a compare of a flag with 0 under a mutex that the publication holds
// anyway, and a predictable branch a task on the rank. On: one store a task on the rank, into a
// line that it has just written; a publication makes one system call if nothing has been in flight
// for so long that the keeper has stopped looking.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/timeline.h"

namespace rankcast::mesh {

/// How far a rank has come. Equal: it has not moved.
struct RankProgress {
  base::TimelineValue timeline;
  std::uint64_t run = 0;   // that it took last
  std::uint32_t task = 0;  // that it is at

  friend bool operator==(const RankProgress&, const RankProgress&) noexcept = default;
};

/// Used under the mesh's mutex.
class Watchdog {
 public:
  /// The period that `option` says, or where that is 0 the environment variable
  /// RANKCAST_WATCHDOG_MS; 0: off. `invalid_argument` for a time that is none, naming which.
  static base::Result<std::int64_t> period_ns(std::chrono::duration<double> option);

  explicit Watchdog(std::int64_t period_ns) : period_ns_(period_ns) {}

  bool on() const noexcept { return period_ns_ != 0; }

  /// At a publication: true when the keeper does not look and has to be woken, so that it will.
  bool wake() noexcept { return std::exchange(resting_, false); }

  struct Answer {
    base::Deadline next;        // look again then, or when woken
    std::int64_t still_ns = 0;  // not 0: all have stood still for so long, and nobody was told
  };

  /// `busy`: a run is in flight that has not ended. `progress()` gives that of all ranks and is
  /// asked only when it is time to look.
  template <class ProgressOf>
  Answer look(bool busy, ProgressOf&& progress, std::int64_t now_ns) {
    if (!busy) {
      rest();
      return {};
    }
    if (now_ns < next_ns_) return {base::Deadline::at(next_ns_)};
    return compare(progress(), now_ns);
  }

 private:
  void rest() noexcept;
  Answer compare(std::vector<RankProgress> progress, std::int64_t now_ns);

  std::int64_t period_ns_;
  bool resting_ = false;
  std::int64_t next_ns_ = 0;            // the time to look
  std::int64_t moved_ns_ = 0;           // when something was last seen to have moved
  bool told_ = false;                   // of the standstill since then
  std::vector<RankProgress> progress_;  // as it was seen last; empty: not yet
};

}  // namespace rankcast::mesh
