// What a rank has yet to be told of its buffer table (PROTOCOL P10).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "frame/records.h"

namespace rankcast::mesh {

/// The changes of one rank's table since its last record, in their order. Of a slot that changed
/// often only the last change is kept once there are many: a rank that nobody submits to may see
/// any number of allocs and frees.
///
/// Used under the mesh's mutex. Cost: constant, spread over the calls; at most twice as many
/// changes as slots, or kFew, are held. Throws std::bad_alloc, and then nothing has changed.
class TableChanges {
 public:
  static constexpr std::size_t kFew = 4096;

  void add(const frame::TableChange& change);
  void clear() noexcept { changes_.clear(); }

  bool empty() const noexcept { return changes_.empty(); }
  std::span<const frame::TableChange> span() const noexcept { return changes_; }

 private:
  void drop_overtaken();

  std::vector<frame::TableChange> changes_;
  std::size_t limit_ = kFew;  // of changes before the next look for overtaken ones
};

}  // namespace rankcast::mesh
