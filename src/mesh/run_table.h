// The runs in flight: a fixed number of slots, each with its run record and its blocks of frame
// memory, and the pool of run states.
//
// A slot is taken by a submit, given up when the run has ended on all its lanes, and then used
// again, the last one first: its memory is warm. Everything here is used under the mesh's mutex,
// unless said otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "frame/encode.h"
#include "frame/flight_recorder.h"
#include "frame/records.h"
#include "frame/report.h"
#include "frame/shared_area.h"
#include "link/link.h"
#include "memory/buffer_table.h"
#include "mesh/link_heap.h"
#include "mesh/run_state.h"

namespace rankcast::mesh {

using detail::RunLane;
using detail::RunState;

class RunTable {
 public:
  /// Bytes of the link's shared area that `slots` run records and the flight recorders take.
  static std::uint64_t shared_bytes(int world_size, int slots) noexcept;

  /// `link` is borrowed: the mesh destroys this first.
  RunTable(link::Link& link, int slots);
  RunTable(const RunTable&) = delete;
  RunTable& operator=(const RunTable&) = delete;

  /// A state with a slot, held, not in flight; null when all slots are taken.
  RunState* try_take();
  /// Takes back a state whose run was not published.
  void give_back(RunState* state) noexcept;
  /// A finished state without a slot, for a run that has nothing to do.
  RunState* take_empty();

  /// Room for the frame of one lane in the state's slot; sets the lane's `frame` and
  /// `frame_address`.
  base::Status reserve_frame(RunState& state, RunLane& lane, std::uint32_t bytes);
  /// The same for the lane's side block; returns the host's address.
  base::Result<std::byte*> reserve_side(RunState& state, int rank, std::uint32_t bytes,
                                        frame::BlockRef* side);
  /// Memory for the temporaries of one lane, until the run has ended on all of its lanes or is
  /// given back; sets the lane's `heap`.
  base::Status reserve_heap(RunLane& lane, std::uint64_t bytes);
  /// Rank `reader` may read the lane's temporaries.
  void let_read_heap(const RunLane& lane, int reader);
  /// Room for one outcome a task.
  base::Status reserve_outcomes(RunState& state, std::uint32_t task_count);

  /// Room for the words of so many groups, zeroed.
  base::Status reserve_groups(RunState& state, std::uint32_t group_count);

  /// Fills the run record and counts the run as in flight. The lanes' ends are set; the records go
  /// out next.
  void publish(RunState& state) noexcept;

  /// Of a run in flight: what has not started shall not.
  void cancel(const RunState& state) noexcept;

  /// The rank is gone: what the lane has not retired never will. Writes outcomes and the lane's
  /// report in its place, and adds what of the rank's buffers in `table` is undefined now, its
  /// segments by the number of the rank's heap. Nothing for a run without such a lane. Before the
  /// timeline is moved.
  void lose_lane(RunState& state, int rank, const std::string& end,
                 const memory::BufferTable& table, std::vector<frame::UndefinedRegion>* undefined);

  /// The run's lanes have ended: reads outcomes and reports, frees the slot. Call once. What a rank
  /// wrote that cannot be is the run's error, `internal`, naming the rank.
  void finish(RunState& state);

  /// The Run is gone. True if the state was given back; false: the run is still in flight, whoever
  /// finishes it gives the state back.
  bool drop(RunState* state) noexcept;
  /// Gives back a finished state that nobody holds.
  void recycle(RunState* state) noexcept;

  /// Where the last record that was published to a rank brings its timeline.
  base::TimelineValue published_end(int rank) const noexcept {
    return published_ends_[static_cast<std::size_t>(rank)];
  }

  /// The flight recorder of a rank: frame::kFlights entries. Any thread.
  frame::FlightEntry* flights(int rank) const noexcept { return area_.flights(rank); }
  /// What of a rank's memory is undefined, as the rank says: the host's to write once that is gone.
  frame::UndefinedList& undefined(int rank) const noexcept { return area_.undefined(rank); }

  std::vector<RunState*>& in_flight() noexcept { return in_flight_; }
  /// Slots taken by submits that have not published yet.
  int reserved() const noexcept { return reserved_; }
  /// The least run number in flight, or `next` when there is none.
  std::uint64_t oldest_run(std::uint64_t next) const noexcept;

 private:
  struct Room {
    memory::Block block;
    bool used = false;  // there is a block
  };
  struct LaneRoom {
    Room frame;
    Room side;
  };
  struct Slot {
    frame::RunRecord* record = nullptr;
    frame::BlockRef outcomes;
    frame::BlockRef group_words;
    std::uint32_t groups = 0;     // of the run that was published last
    std::uint32_t tasks = 0;      // of the run that was published last
    std::vector<LaneRoom> lanes;  // by rank
  };

  base::Result<frame::BlockRef> make_room(Room& room, int rank, std::uint32_t bytes);
  RunState* take_state();
  void give_back_heaps(RunState& state) noexcept;
  std::span<frame::GroupWords> group_words(const Slot& slot) const noexcept;
  std::span<std::byte> outcomes_of(const Slot& slot) noexcept;
  void add_undefined(const RunState& state, const RunLane& lane, const frame::TaskRecord& task,
                     const memory::BufferTable& table,
                     std::vector<frame::UndefinedRegion>* undefined) const;
  frame::LaneEnd end_of(const RunState& state, const RunLane& lane, std::int64_t now_ns);

  link::Link& link_;
  frame::SharedArea area_;
  std::vector<std::unique_ptr<LinkHeap>> heaps_;        // of frames, by rank
  std::vector<std::unique_ptr<LinkHeap>> temporaries_;  // by rank
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;          // the last one given up is taken first
  std::vector<std::unique_ptr<RunState>> states_;  // all
  std::vector<RunState*> spare_states_;            // that nobody uses
  std::vector<RunState*> in_flight_;
  std::vector<base::TimelineValue> published_ends_;  // by rank: no timeline is further
  int reserved_ = 0;
};

}  // namespace rankcast::mesh
