// A run while it is laid out: one frame draft a lane, and what they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/rank_set.h"
#include "base/scratch.h"
#include "frame/encode.h"
#include "frame/records.h"

namespace rankcast::graph {

/// Where the task of a number is.
struct TaskPlace {
  std::int32_t rank = 0;
  std::uint32_t ordinal = 0;             // in its lane
  std::uint32_t foreign = frame::kNone;  // in RunDraft::foreign: of a copy from another rank
};

/// The source of a copy that lies on another rank than the task: as the host names it. Argument 1
/// of the task says where the bytes are.
struct ForeignSource {
  std::uint64_t offset = 0;      // in the buffer or temporary
  std::uint32_t slot = 0;        // or number of the temporary
  std::uint32_t generation = 0;  // 0: a temporary
  std::int32_t rank = 0;
};

/// Memory of a rank that a run has while it is in flight.
struct Temporary {
  std::uint64_t bytes = 0;
  std::int32_t rank = 0;
  // By HeapLayout:
  std::uint32_t over = frame::kNone;        // first of the overlays: what had its bytes before
  std::uint64_t offset = 0;                 // in its rank's block
  std::uint32_t first_task = frame::kNone;  // kNone: no task names it
  std::uint32_t last_task = frame::kNone;
};

/// A temporary that had bytes of a later one.
struct Overlay {
  std::uint32_t earlier = 0;
  std::uint32_t next = frame::kNone;  // in RunDraft::overlays, of the same later one
};

/// A task that comes after another though no argument says so.
struct After {
  std::uint32_t task = 0;
  std::uint32_t earlier = 0;
};

/// Used by one thread at a time; keeps its memory between runs.
struct RunDraft {
  explicit RunDraft(int world_size) : lanes(static_cast<std::size_t>(world_size)) {}

  /// Empties the lanes that were used.
  void clear() noexcept {
    used.for_each([this](int rank) { lanes[static_cast<std::size_t>(rank)].clear(); });
    used.clear();
    sources.clear();
    layouts.clear();
    places.clear();
    foreign.clear();
    afters.clear();
    temporaries.clear();
    overlays.clear();
    group_count = 0;
  }

  std::uint32_t task_count() const noexcept { return static_cast<std::uint32_t>(places.size()); }

  frame::FrameDraft& lane(int rank) noexcept {
    used.insert(rank);
    return lanes[static_cast<std::size_t>(rank)];
  }
  const frame::FrameDraft& lane(int rank) const noexcept {
    return lanes[static_cast<std::size_t>(rank)];
  }
  const frame::TaskRecord& task(std::uint32_t number) const noexcept {
    return lane(places[number].rank).tasks[places[number].ordinal];
  }

  /// Puts a task, whose arguments and scalars were pushed last, at the end of a lane and gives it
  /// the next number.
  void add_task(int rank, frame::TaskRecord task) {
    frame::FrameDraft& on = lane(rank);
    task.task = task_count();
    places.push({rank, static_cast<std::uint32_t>(on.tasks.size()), frame::kNone});
    on.tasks.push(task);
  }

  /// Makes the last tasks, one for each of `members`, a group: they start together or not at all.
  /// `record` says what its members have in common, but for `members` and `group`.
  void add_group(std::span<const int> members, frame::GroupRecord record);

  /// Forgets the tasks from number `count` on, which begins no further than a group does.
  void shrink(std::uint32_t count) noexcept;

  std::vector<frame::FrameDraft> lanes;        // by rank; empty where not used
  base::RankSet used;                          // ranks with a task
  base::RankSet sources;                       // ranks that a copy to another one reads from
  base::Scratch<frame::LayoutRecord> layouts;  // of all lanes
  base::Scratch<TaskPlace> places;             // by task number
  base::Scratch<ForeignSource> foreign;        // in the order of tasks
  base::Scratch<After> afters;                 // likewise
  base::Scratch<Temporary> temporaries;        // by number, in the order in which they were made
  base::Scratch<Overlay> overlays;             // of all temporaries
  std::uint32_t group_count = 0;
};

}  // namespace rankcast::graph
