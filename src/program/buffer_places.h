// Where a buffer's bytes are, for a task of another rank that reads them.
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
};

}  // namespace rankcast::program
