// In which order the tasks of a run may go: what follows from the bytes that their arguments touch
// and from `after`.
//
//   read after write    needs: the later task does not start unless the earlier one ended well
//   write after read,
//   write after write   the order alone
//   after(task)         needs
//
// A temporary is a buffer of its own. Of one that has bytes which others had before, whoever has no
// earlier access of the same temporary to come after comes after all accesses of those: the order
// alone, `no_dep` or not.
//
// Within a lane an edge is the ordinal of the earlier task; lane order keeps it. Between lanes,
// where a copy reads another rank's memory or `after` says so, the later task waits for the
// timeline of the earlier one's lane, and the earlier one notifies. Every edge points to an earlier
// submission, and a lane runs its tasks in that order, so no wait can close a circle.
#pragma once

#include <cstdint>
#include <optional>

#include "base/scratch.h"
#include "graph/run_draft.h"

namespace rankcast::graph {

/// Used by one thread at a time; keeps its memory. Linear in arguments; and, of buffers that
/// several tasks touch, in each task's arguments times the earlier accesses of the same buffer that
/// no later write has covered.
class TaskOrder {
 public:
  /// Two arguments of one task that share a byte, one of them written.
  struct Conflict {
    std::uint32_t task = 0;
    std::uint32_t first = 0;
    std::uint32_t second = 0;
  };

  /// Works out all edges and puts them into the draft's lanes, in place of those there. A conflict
  /// leaves the draft without a usable order.
  std::optional<Conflict> lay_out(RunDraft& draft);

  /// True if the order of the last lay_out is also that of `draft`: the same tasks with the same
  /// tags and layouts, whose arguments share buffers as they did then, and there at the same
  /// places. Linear in arguments.
  bool holds(const RunDraft& draft);

 private:
  /// What one argument is to the others.
  struct Relation {
    std::uint64_t offset = 0;  // in its buffer
    std::uint32_t buffer = 0;  // number of the first argument that touches it
    std::uint32_t shared = 0;  // 1: others touch it too
  };

  /// A buffer that was met.
  struct Row {
    std::uint64_t key = 0;
    std::uint32_t buffer = 0;
    std::uint32_t round = 0;  // in which the row was filled
  };

  /// One access of a buffer that a later one may have to come after.
  struct Touch {
    std::uint64_t offset = 0;
    std::uint32_t layout = 0;
    std::uint32_t task = 0;
    std::uint32_t argument = 0;
    std::uint32_t next = 0;
  };

  /// What has touched a buffer so far.
  struct Touched {
    std::uint32_t writers = frame::kNone;  // numbers of touches
    std::uint32_t readers = frame::kNone;
    std::uint32_t others = frame::kNone;  // of a temporary, tagged no_dep
  };

  struct Edge {
    std::uint32_t earlier = 0;
    std::uint32_t needs = 0;  // frame::kNeeds or 0
  };

  struct Seen {
    std::uint32_t task = frame::kNone;  // the later one
    std::uint32_t edge = 0;
  };

  struct Notice {
    std::uint32_t task = 0;
    std::int32_t lane = 0;  // that waits for it
  };

  bool relate(const RunDraft& draft, base::Scratch<Relation>* relations);
  std::uint32_t buffer_of(std::uint64_t key, std::uint32_t argument);
  std::optional<Conflict> touch(const RunDraft& draft, const Touch& access, Tag tag,
                                std::uint32_t buffer);
  std::optional<Conflict> look_at(const RunDraft& draft, const Touch& access, std::uint32_t* list,
                                  std::uint32_t needs, bool covering);
  void add_touch(const Touch& access, std::uint32_t* list);
  void come_after_overlaid(const RunDraft& draft, std::uint32_t task, std::uint32_t number);
  void add_edge(std::uint32_t task, std::uint32_t earlier, std::uint32_t needs);
  void put_edges(RunDraft& draft, std::uint32_t task);
  void put_notices(RunDraft& draft);

  base::Scratch<Relation> relations_;  // of the order at hand, one an argument with a hazard
  base::Scratch<Relation> others_;     // of the draft that is compared
  base::Scratch<Row> rows_;            // open addressing, a power of two
  std::uint32_t round_ = 0;
  base::Scratch<Touch> touches_;
  base::Scratch<Touched> touched_;  // by number of buffer
  base::Scratch<Edge> edges_;       // of the task at hand
  base::Scratch<Seen> seen_;        // by number of the earlier task
  base::Scratch<Notice> notices_;
  std::size_t met_ = 0;  // earlier accesses that the one at hand comes after
};

}  // namespace rankcast::graph
