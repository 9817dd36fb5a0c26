// Where memory is that more than one rank reaches: buffers that a copy reads, blocks of groups.
#pragma once

#include "base/status.h"
#include "frame/records.h"
#include "rankcast/tensor.h"

namespace rankcast::program {

/// Thread-safe. Asked once for each copy that is encoded, not for one that repeats.
class BufferPlaces {
 public:
  virtual ~BufferPlaces() = default;

  /// Segment and offset of a buffer of this mesh, which rank `reader` reaches from the next record
  /// on. Nothing in `bytes` when the buffer is no longer live. Fails with what keeps the rank from
  /// reaching it.
  virtual base::Result<frame::BlockRef> find(const detail::Shard& buffer, int reader) = 0;

  /// Memory that the members of a group share, the same for the same prepare id: the first member's
  /// block, with the bytes of one. Every rank may write it. `out_of_memory` when there is none.
  virtual base::Result<frame::BlockRef> group_block(std::uint64_t prepare_id, int members) = 0;
};

}  // namespace rankcast::program
