// Memory of one rank by (segment id of the mesh, offset): a heap over segments that its link adds.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "frame/records.h"
#include "link/link.h"
#include "memory/heap.h"

namespace rankcast::mesh {

/// Used under the mesh's mutex.
class LinkHeap {
 public:
  /// `link` is borrowed: the mesh destroys its heaps first. `owner` and `access` are those of its
  /// segments.
  LinkHeap(link::Link& link, int owner, link::Access access, std::uint64_t segment_bytes);
  LinkHeap(const LinkHeap&) = delete;
  LinkHeap& operator=(const LinkHeap&) = delete;

  base::Result<memory::Block> allocate(std::uint64_t bytes) { return heap_.allocate(bytes); }
  void release(const memory::Block& block) noexcept { heap_.release(block); }

  /// The mesh's id of the block's segment.
  std::uint32_t segment_id(const memory::Block& block) const noexcept {
    return ids_[block.segment];
  }
  /// The host's address of the block.
  std::byte* address(const memory::Block& block) const noexcept {
    return link_.segment(segment_id(block)) + block.offset;
  }

  std::uint64_t reserved_bytes() const noexcept { return heap_.reserved_bytes(); }
  std::uint64_t live_bytes() const noexcept { return heap_.live_bytes(); }

 private:
  link::Link& link_;
  std::vector<std::uint32_t> ids_;  // by the heap's segment number
  memory::RankHeap heap_;
};

}  // namespace rankcast::mesh
