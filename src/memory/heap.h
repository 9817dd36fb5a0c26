// Which bytes of a rank's segments hold which buffer.
//
// Only numbers: the heap never touches the memory that it manages, which may be a device's or
// another process's. It hands out (segment, offset); whoever maps the segments makes addresses of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/status.h"

namespace rankcast::memory {

/// Every block begins at, and takes, a multiple of this many bytes.
inline constexpr std::uint64_t kBlockAlignment = 256;

/// Segments are asked for in multiples of this many bytes.
inline constexpr std::uint64_t kPageBytes = 4096;

/// The least that a heap asks for when it grows.
inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{64} << 20;

/// One allocation. A plain value; only the heap that made it can take it back.
struct Block {
  std::uint32_t segment = 0;  ///< 0 for the first segment added, 1 for the next.
  std::uint32_t node = 0;     ///< The heap's own record of it.
  std::uint64_t offset = 0;   ///< From the start of the segment.
  std::uint64_t bytes = 0;    ///< What it takes: at least what was asked for.

  friend bool operator==(const Block&, const Block&) = default;
};

/// Best fit with immediate coalescing over segments that are added on demand and never given back.
///
/// Not thread-safe: the mesh calls it under its mutex. `allocate` and `release` cost O(log s), s
/// the number of different sizes among the free blocks. Takes 40 bytes of host memory a block and
/// 48 a different size, up to its peak, and keeps them; `allocate` throws std::bad_alloc with
/// nothing changed when the host has none.
class RankHeap {
 public:
  /// Provides a further segment of at least `min_bytes` (a multiple of `kPageBytes`) and returns
  /// its size, or says why it cannot. Called by `allocate` alone.
  using AddSegment = std::function<base::Result<std::uint64_t>(std::uint64_t min_bytes)>;

  explicit RankHeap(AddSegment add_segment, std::uint64_t segment_bytes = kSegmentBytes);

  /// Smallest free block that holds `bytes` (0 counts as 1), cut to size. When none does, a segment
  /// of max(segment_bytes, bytes) is added. Fails with what `add_segment` failed with, or
  /// `out_of_memory` when `bytes` cannot be represented; nothing has changed then.
  base::Result<Block> allocate(std::uint64_t bytes);

  /// Takes a block back and joins it with free neighbours of its segment. Aborts on a block that is
  /// not live.
  void release(const Block& block) noexcept;

  std::uint64_t live_bytes() const noexcept { return live_bytes_; }
  std::uint64_t free_bytes() const noexcept { return reserved_bytes_ - live_bytes_; }
  /// Of all segments.
  std::uint64_t reserved_bytes() const noexcept { return reserved_bytes_; }
  std::size_t live_blocks() const noexcept { return live_blocks_; }
  std::size_t free_blocks() const noexcept { return free_blocks_; }
  std::size_t segment_count() const noexcept { return first_.size(); }

  /// Looks at everything: blocks tile each segment without gap or overlap, no two free neighbours,
  /// every free block is listed under its size, all counts agree. O(blocks); for tests.
  bool valid() const;

 private:
  /// A block, live or free. Neighbours in its segment and among the free blocks of its size are
  /// node numbers.
  struct Node {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t segment = 0;
    std::uint32_t before = kNone;
    std::uint32_t after = kNone;
    std::uint32_t list_before = kNone;  // free nodes only; kNone: head of its list
    std::uint32_t list_after = kNone;   // free nodes, and unused ones (their stack)
    bool live = false;
  };
  static_assert(sizeof(Node) == 40);

  static constexpr std::uint32_t kNone = UINT32_MAX;

  base::Result<std::uint32_t> grow(std::uint64_t bytes);
  std::uint32_t take_node();
  void make_spare();
  void give_node(std::uint32_t node) noexcept;
  void list(std::uint32_t node);
  void unlist(std::uint32_t node) noexcept;
  void split(std::uint32_t node, std::uint64_t bytes, std::uint32_t rest);
  void absorb_after(std::uint32_t node) noexcept;

  AddSegment add_segment_;
  std::uint64_t segment_bytes_;
  std::vector<Node> nodes_;
  std::uint32_t unused_ = kNone;                       // stack of node numbers
  std::map<std::uint64_t, std::uint32_t> free_lists_;  // size -> head of the free blocks of it
  std::map<std::uint64_t, std::uint32_t>::node_type
      spare_;                         // set throughout allocate, so that list cannot fail there
  std::vector<std::uint32_t> first_;  // by segment: its first node
  std::uint64_t live_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  std::size_t live_blocks_ = 0;
  std::size_t free_blocks_ = 0;
};

}  // namespace rankcast::memory
