// A rank's end of a link: the same concrete class on every link. Used by the rank's thread alone,
// but for `wake`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/countdown.h"
#include "base/keeper_signal.h"
#include "base/rank_set.h"
#include "base/spin.h"
#include "base/status.h"
#include "link/control.h"

namespace rankcast::link {

/// How a rank turns segment ids into its own addresses.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// The rank's address and size of a segment; null for one that nobody added.
  virtual std::byte* segment(std::uint32_t id, std::uint64_t* bytes) noexcept = 0;
};

class RankPort {
 public:
  /// All are borrowed: they outlive the port, which lives as long as the rank's main function.
  RankPort(Control control, int rank, base::SpinPolicy spin, base::KeeperSignal& keeper,
           SegmentSource& segments) noexcept
      : control_(control),
        channel_(&control.channel(rank)),
        ring_(channel_->tail, channel_->head, control.slots(rank)),
        keeper_(&keeper),
        segments_(&segments),
        spin_(spin),
        rank_(rank) {}

  int rank() const noexcept { return rank_; }
  int world_size() const noexcept { return control_.world_size(); }

  /// Tells the host that the rank is ready, or why it never will be. Called once, first.
  void report(const base::Status& status) noexcept;

  /// Tells the host of a record that has no run record to be answered in. The first one told stays.
  void complain(const base::Status& status) noexcept;

  /// The rank cannot go on: its main function returns, and it is a lost rank.
  void give_up() noexcept;

  /// The next record, in the order of publication; waits for it (P3).
  RecordBytes next() noexcept {
    control_.doorbell().wait_asleep(
        rank_, [this]() noexcept { return ring_.has_record(); }, spin_, base::Deadline::never());
    return ring_.take();
  }

  /// Waits inside a frame until `ready()` (which uses seq_cst loads) is true.
  template <class Ready>
  void wait_until(Ready ready) noexcept {
    control_.doorbell().wait_inside_frame(rank_, ready, spin_, base::Deadline::never());
  }

  /// The same until another lane's timeline has reached `value`.
  void wait_for_lane(int lane, base::TimelineValue value) noexcept {
    const base::Timeline& timeline = control_.channel(lane).timeline;
    wait_until([&]() noexcept { return timeline.reached(value); });
  }

  /// Wakes this rank out of wait_until. Any thread, once the word that it waits for is stored
  /// (seq_cst).
  void wake() noexcept { control_.doorbell().ring_waiting(base::RankSet::of(rank_)); }

  /// Where this lane's timeline is.
  base::TimelineValue timeline() const noexcept { return channel_->timeline.peek(); }

  /// Moves this lane's timeline within a run.
  void advance(base::TimelineValue value) noexcept { channel_->timeline.advance(value); }

  /// Wakes peers that wait for what was stored before.
  void notify(const base::RankSet& peers) noexcept { control_.doorbell().ring_waiting(peers); }

  /// Moves the timeline to the end of a run, wakes the ranks that may wait for that inside a frame
  /// and, as the run's last lane, the host threads that wait.
  void finish(base::TimelineValue value, base::Countdown& lanes_left, bool notify_keeper) noexcept {
    channel_->timeline.advance(value);
    control_.doorbell().ring_if_any_waits(control_.world_size());
    const bool last = lanes_left.count_down(value.run());
    if (last || base::load_seq_cst(control_.rank_was_lost()) != 0) control_.waiters().notify();
    keeper_->notify_if(notify_keeper);
  }

  /// The same for a record that names no run record: host threads look for themselves.
  void finish_unanswered(base::TimelineValue value) noexcept {
    channel_->timeline.advance(value);
    control_.doorbell().ring_if_any_waits(control_.world_size());
    control_.waiters().notify();
    keeper_->notify_if(true);
  }

  /// The rank's address of a segment; null when there is none.
  std::byte* segment(std::uint32_t id, std::uint64_t* bytes) noexcept {
    return segments_->segment(id, bytes);
  }
  /// Of the memory that host and ranks share for their own records.
  std::byte* shared() const noexcept { return control_.shared(); }

 private:
  Control control_;
  Channel* channel_;
  RankRing ring_;
  base::KeeperSignal* keeper_;
  SegmentSource* segments_;
  base::SpinPolicy spin_;
  int rank_;
};

}  // namespace rankcast::link
