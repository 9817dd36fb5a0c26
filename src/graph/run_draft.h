// A run while it is laid out: one frame draft a lane, and what they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rank_set.h"
#include "base/scratch.h"
#include "frame/encode.h"
#include "frame/records.h"

namespace rankcast::graph {

/// Used by one thread at a time; keeps its memory between runs.
struct RunDraft {
  explicit RunDraft(int world_size) : lanes(static_cast<std::size_t>(world_size)) {}

  /// Empties the lanes that were used.
  void clear() noexcept {
    used.for_each([this](int rank) { lanes[static_cast<std::size_t>(rank)].clear(); });
    used.clear();
    layouts.clear();
    task_count = 0;
  }

  frame::FrameDraft& lane(int rank) noexcept {
    used.insert(rank);
    return lanes[static_cast<std::size_t>(rank)];
  }
  const frame::FrameDraft& lane(int rank) const noexcept {
    return lanes[static_cast<std::size_t>(rank)];
  }

  std::vector<frame::FrameDraft> lanes;        // by rank; empty where not used
  base::RankSet used;                          // ranks with a task
  base::Scratch<frame::LayoutRecord> layouts;  // of all lanes
  std::uint32_t task_count = 0;
};

}  // namespace rankcast::graph
