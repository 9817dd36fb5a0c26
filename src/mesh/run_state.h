// What the host knows of one run, from its publication until nobody asks any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/scratch.h"
#include "base/status.h"
#include "base/stream_store.h"
#include "base/timeline.h"
#include "frame/encode.h"
#include "frame/records.h"
#include "memory/heap.h"

namespace rankcast::detail {

/// One lane's part of a run.
struct RunLane {
  int rank = 0;
  std::uint32_t tasks = 0;
  frame::BlockRef frame;
  std::byte* frame_address = nullptr;       // the host's
  const std::byte* side_address = nullptr;  // the host's; null: the record has no side block
  memory::Block heap;                       // of its temporaries; no bytes: it has none now
  std::uint64_t heap_bytes = 0;             // that it had
  base::TimelineValue end;                  // of the lane in this run; once published
  std::int64_t entry_ns = 0;                // once finished
  std::int64_t exit_ns = 0;                 // once finished
};

/// Pooled by mesh::RunTable; lent to the Run of a submit, or to the call that waits for a transfer.
///
/// Written under the mesh's mutex: by the submit before publication, by whoever finishes the run
/// after its lanes have ended. In between the lanes' ends, `run` and `slot` are constant and read
/// without the mutex by those who wait.
struct RunState {
  std::uint64_t run = 0;  // dispatch id
  std::int64_t submit_begin_ns = 0;
  std::int64_t submit_end_ns = 0;  // written by the submitting thread before it hands the Run out
  base::Scratch<RunLane> lanes;
  base::Status error;      // once finished
  std::uint32_t slot = 0;  // of the run table, while it has one
  std::uint64_t frame_bytes = 0;
  base::StoreKind store_kind = base::StoreKind::ordinary;
  bool is_transfer = false;
  // Of a run that loads kernels: borrowed from the call that waits for it, for its publication.
  const frame::SideDraft* libraries = nullptr;
  bool in_flight = false;
  bool held = false;        // by a Run or by the call that waits for it
  bool error_told = false;  // thrown by a wait: not logged when the handle goes

  // Written by: whoever finishes the run, under the mutex. Read by: its holders. Ordered by:
  // run_finished; error and reports, written before it, are constant from then until the state is
  // given back.
  std::atomic<bool> finished{false};

  bool is_finished() const noexcept {
    return base::load_acquire(finished);  // pairs: run_finished
  }
  /// `timeline(rank)` gives the lane's timeline. True when every lane has reached the end of the
  /// run.
  template <class TimelineOf>
  bool lanes_ended(TimelineOf&& timeline) const noexcept {
    for (const RunLane& lane : lanes) {
      if (!timeline(lane.rank).reached(lane.end)) return false;
    }
    return true;
  }
};

}  // namespace rankcast::detail
