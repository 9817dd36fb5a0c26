// Blocks that somebody outside of the mesh reads: a freed one goes back when the last pin is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "memory/heap.h"

namespace rankcast::memory {

/// Not thread-safe: under the mesh's mutex. Costs O(log n), n the number of pinned blocks.
class Pins {
 public:
  /// One more pin on a live block. Throws std::bad_alloc only.
  void add(int rank, const Block& block);

  /// For a freed block that no run uses any more. True if it is pinned: the last `remove` then
  /// answers true, and until then the block stays.
  bool hold_back(int rank, const Block& block) noexcept;

  /// Takes one pin away. True if the block was held back and is to be given back now.
  bool remove(int rank, const Block& block) noexcept;

  /// Of all pinned blocks, each counted once.
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool empty() const noexcept { return pinned_.empty(); }

 private:
  struct Pin {
    std::uint64_t count = 0;
    bool held_back = false;
  };
  using Key = std::pair<int, std::uint32_t>;  // rank, and the heap's number of the block

  std::map<Key, Pin> pinned_;
  std::uint64_t bytes_ = 0;
};

}  // namespace rankcast::memory
