// Memory that the members of groups share: for each kind of group, known by its prepare id, one
// block a member, kept as long as the mesh. Members zero it when they make their preparation.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/status.h"
#include "frame/records.h"
#include "link/link.h"
#include "mesh/link_heap.h"

namespace rankcast::mesh {

/// Used under the mesh's mutex.
class GroupBlocks {
 public:
  /// Kinds of groups: kernel, ranks and shapes.
  static constexpr std::size_t kMax = 4096;

  /// `link` is borrowed: the mesh destroys this first. `bytes`: of each member.
  GroupBlocks(link::Link& link, std::uint64_t bytes);

  /// The first member's block, the others' follow it; `bytes` is that of one. `out_of_memory` when
  /// there is none, with the numbers.
  base::Result<frame::BlockRef> find(std::uint64_t prepare_id, int members);

 private:
  const std::uint64_t bytes_;
  LinkHeap heap_;
  std::unordered_map<std::uint64_t, frame::BlockRef> blocks_;
};

}  // namespace rankcast::mesh
