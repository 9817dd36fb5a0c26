// Order between runs in flight (PROTOCOL P5). Lane order covers what happens on one rank; a copy
// reads another rank's buffer from its own lane, and that has to be said:
//
//   a copy waits until its source's lane has passed the last run in flight that writes the source
//   the next frame there that writes it waits until the copy has retired
//
// Both are absolute timeline values and travel in the side block of a record. Everything is used
// under the mesh's mutex, in the step that publishes: what is looked up cannot move.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/scratch.h"
#include "frame/records.h"
#include "graph/run_draft.h"
#include "link/link.h"
#include "mesh/run_state.h"

namespace rankcast::mesh {

class RunOrder {
 public:
  /// `link` is borrowed: the mesh destroys this first.
  explicit RunOrder(link::Link& link);

  /// Finds what the run that is about to be published waits for. Looks at nothing while no copy is
  /// under way and the run has none.
  void find_waits(const graph::RunDraft& draft, std::span<detail::RunState* const> in_flight);
  /// Of one lane of that run, in the order of its tasks.
  std::span<const frame::RunWait> waits(int rank) const noexcept {
    return waits_[static_cast<std::size_t>(rank)].span();
  }

  /// The run was published under this number: its copies are under way.
  void published(const graph::RunDraft& draft, std::uint64_t run);

 private:
  /// A copy out of a buffer of one lane by another.
  struct CopyOut {
    std::uint64_t end = 0;  // of the copy, on the lane that runs it
    std::uint32_t slot = 0;
    std::int32_t lane = 0;  // that runs it
  };

  std::uint64_t last_writer(const graph::ForeignSource& source,
                            std::span<detail::RunState* const> in_flight) const noexcept;
  void forget_retired();
  void wait_for_copies(int rank, const frame::TaskRecord& task, std::uint32_t ordinal,
                       const frame::FrameDraft& lane);

  link::Link& link_;
  std::vector<base::Scratch<frame::RunWait>> waits_;  // by rank
  bool any_waits_ = false;
  std::vector<std::vector<CopyOut>> copies_;  // by rank of the source
  std::size_t under_way_ = 0;                 // in all of copies_
};

}  // namespace rankcast::mesh
