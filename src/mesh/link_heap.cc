#include "mesh/link_heap.h"

#include <algorithm>
#include <utility>

namespace rankcast::mesh {

LinkHeap::LinkHeap(link::Link& link, int owner, link::Access access, std::uint64_t segment_bytes)
    : link_(link),
      heap_(
          [this, owner, access,
           segment_bytes](std::uint64_t min_bytes) -> base::Result<std::uint64_t> {
            const std::uint64_t bytes = std::max(segment_bytes, min_bytes);
            auto id = link_.add_segment(bytes, owner, access);
            if (!id) return tl::unexpected(std::move(id).error());
            ids_.push_back(*id);
            return bytes;
          },
          segment_bytes) {}

}  // namespace rankcast::mesh
