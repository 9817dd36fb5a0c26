// Memory that was freed while ranks may still use it (P1).
//
// Run numbers grow mesh-wide in publication order, so "every run up to the one noted at the free
// has retired on all its lanes" is P1's "every lane has reached the value noted for it", in one
// number instead of one a lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "memory/heap.h"

namespace rankcast::memory {

/// One freed block and the last run that may use it.
struct DeferredFree {
  int rank = 0;
  std::uint64_t run = 0;
  Block block;
};

/// First in, first out. Not thread-safe: under the mesh's mutex, like the free that notes the run
/// and the release of what is taken. Costs O(1) a block.
class DeferredFrees {
 public:
  /// `last_published_run` is that of the moment: never less than the one before.
  void add(int rank, const Block& block, std::uint64_t last_published_run);

  /// Removes and returns the blocks noted with a run below `unretired_run`, the least run that has
  /// not retired on all its lanes. Allocates nothing when there are none.
  std::vector<DeferredFree> take_ready(std::uint64_t unretired_run);

  /// The run that the oldest block waits for; nothing when none waits.
  std::optional<std::uint64_t> oldest_run() const noexcept;

  /// Bytes of the blocks that wait.
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return waiting_.size(); }

 private:
  std::deque<DeferredFree> waiting_;
  std::uint64_t bytes_ = 0;
};

}  // namespace rankcast::memory
