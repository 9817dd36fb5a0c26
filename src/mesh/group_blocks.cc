#include "mesh/group_blocks.h"

namespace rankcast::mesh {
namespace {

constexpr std::uint64_t kSegmentBytes = std::uint64_t{1} << 20;

}  // namespace

GroupBlocks::GroupBlocks(link::Link& link, std::uint64_t bytes)
    : bytes_(frame::aligned(bytes)), heap_(link, -1, link::Access::all_write, kSegmentBytes) {}

base::Result<frame::BlockRef> GroupBlocks::find(std::uint64_t prepare_id, int members) {
  if (const auto known = blocks_.find(prepare_id); known != blocks_.end()) return known->second;
  if (blocks_.size() == kMax) {
    return base::unexpected_failure(ErrorCode::out_of_memory,
                                    "this mesh has met {} kinds of groups (kernel, ranks and "
                                    "shapes), and has room for no more; "
                                    "open another mesh, or use fewer kinds",
                                    blocks_.size());
  }
  auto block = heap_.allocate(bytes_ * static_cast<std::uint64_t>(members));
  if (!block) return tl::unexpected(std::move(block).error());
  const frame::BlockRef place{block->offset, heap_.segment_id(*block),
                              static_cast<std::uint32_t>(bytes_)};
  blocks_.emplace(prepare_id, place);
  return place;
}

}  // namespace rankcast::mesh
