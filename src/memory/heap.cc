#include "memory/heap.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace rankcast::memory {

namespace {

// Segments grow in whole huge pages, so that the rest of one is of use.
constexpr std::uint64_t kSegmentStep = std::uint64_t{2} << 20;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t step) {
  return (bytes + step - 1) / step * step;
}

}  // namespace

RankHeap::RankHeap(AddSegment add_segment, std::uint64_t segment_bytes)
    : add_segment_(std::move(add_segment)),
      segment_bytes_(round_up(std::max<std::uint64_t>(segment_bytes, 1), kPageBytes)) {}

base::Result<Block> RankHeap::allocate(std::uint64_t bytes) {
  if (bytes > std::numeric_limits<std::uint64_t>::max() / 2) {
    return base::unexpected_failure(ErrorCode::out_of_memory,
                                    "{} bytes are more than any heap can hold", bytes);
  }
  const std::uint64_t taken = round_up(std::max<std::uint64_t>(bytes, 1), kBlockAlignment);
  make_spare();
  const auto best = free_lists_.lower_bound(taken);
  std::uint32_t index = kNone;
  if (best == free_lists_.end()) {
    base::Result<std::uint32_t> grown = grow(taken);
    if (!grown) return tl::unexpected(std::move(grown).error());
    index = *grown;
  } else {
    index = best->second;
  }
  const bool cut = nodes_[index].bytes > taken;
  const std::uint32_t rest = cut ? take_node() : kNone;
  unlist(index);
  if (cut) split(index, taken, rest);
  Node& node = nodes_[index];
  node.live = true;
  live_bytes_ += node.bytes;
  ++live_blocks_;
  return Block{.segment = node.segment, .node = index, .offset = node.offset, .bytes = node.bytes};
}

void RankHeap::release(const Block& block) noexcept {
  RC_CHECK(block.node < nodes_.size());
  std::uint32_t index = block.node;
  {
    Node& node = nodes_[index];
    RC_CHECK(node.live && node.segment == block.segment && node.offset == block.offset &&
             node.bytes == block.bytes);
    node.live = false;
    live_bytes_ -= node.bytes;
    --live_blocks_;
  }
  const std::uint32_t after = nodes_[index].after;
  if (after != kNone && !nodes_[after].live) {
    unlist(after);
    absorb_after(index);
  }
  const std::uint32_t before = nodes_[index].before;
  if (before != kNone && !nodes_[before].live) {
    unlist(before);
    absorb_after(before);
    index = before;
  }
  list(index);
}

// Adds a segment that can hold `bytes`: one free block, which is returned.
base::Result<std::uint32_t> RankHeap::grow(std::uint64_t bytes) {
  if (first_.size() >= kNone) {
    return base::unexpected_failure(ErrorCode::out_of_memory, "the heap has {} segments already",
                                    first_.size());
  }
  const std::uint64_t wanted = std::max(segment_bytes_, round_up(bytes, kSegmentStep));
  first_.reserve(first_.size() + 1);
  const std::uint32_t index = take_node();
  base::Result<std::uint64_t> size = add_segment_(wanted);
  if (!size) {
    give_node(index);
    return tl::unexpected(std::move(size).error());
  }
  RC_CHECK(*size >= wanted);
  Node& node = nodes_[index];
  node.bytes = *size / kBlockAlignment * kBlockAlignment;
  node.segment = static_cast<std::uint32_t>(first_.size());
  first_.push_back(index);
  reserved_bytes_ += node.bytes;
  list(index);
  return index;
}

std::uint32_t RankHeap::take_node() {
  if (unused_ == kNone) {
    RC_CHECK(nodes_.size() < kNone);
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t index = unused_;
  unused_ = nodes_[index].list_after;
  nodes_[index] = Node{};
  return index;
}

void RankHeap::give_node(std::uint32_t index) noexcept {
  nodes_[index] = Node{.list_after = unused_};
  unused_ = index;
}

void RankHeap::make_spare() {
  if (spare_) return;
  std::map<std::uint64_t, std::uint32_t> source{{0, kNone}};  // the only source of map nodes
  spare_ = source.extract(source.begin());
}

// Puts a block at the head of the list of its size.
void RankHeap::list(std::uint32_t index) {
  Node& node = nodes_[index];
  node.list_before = kNone;
  node.list_after = kNone;
  auto at = free_lists_.lower_bound(node.bytes);
  if (at != free_lists_.end() && at->first == node.bytes) {
    node.list_after = at->second;
    nodes_[at->second].list_before = index;
    at->second = index;
  } else if (spare_) {
    spare_.key() = node.bytes;
    spare_.mapped() = index;
    free_lists_.insert(at, std::move(spare_));
  } else {
    free_lists_.emplace_hint(at, node.bytes, index);
  }
  ++free_blocks_;
}

void RankHeap::unlist(std::uint32_t index) noexcept {
  const Node& node = nodes_[index];
  if (node.list_after != kNone) nodes_[node.list_after].list_before = node.list_before;
  if (node.list_before != kNone) {
    nodes_[node.list_before].list_after = node.list_after;
  } else {
    const auto at = free_lists_.find(node.bytes);
    if (node.list_after != kNone) {
      at->second = node.list_after;
    } else {
      spare_ = free_lists_.extract(at);
    }
  }
  --free_blocks_;
}

// Leaves `bytes` in the block; `rest`, an unused node, becomes a listed free block of what is cut
// off.
void RankHeap::split(std::uint32_t index, std::uint64_t bytes, std::uint32_t rest) {
  Node& node = nodes_[index];
  Node& cut = nodes_[rest];
  cut.offset = node.offset + bytes;
  cut.bytes = node.bytes - bytes;
  cut.segment = node.segment;
  cut.before = index;
  cut.after = node.after;
  if (cut.after != kNone) nodes_[cut.after].before = rest;
  node.bytes = bytes;
  node.after = rest;
  list(rest);
}

// Joins the block with the one behind it, whose node becomes unused. Neither is listed.
void RankHeap::absorb_after(std::uint32_t index) noexcept {
  Node& node = nodes_[index];
  const std::uint32_t gone = node.after;
  node.bytes += nodes_[gone].bytes;
  node.after = nodes_[gone].after;
  if (node.after != kNone) nodes_[node.after].before = index;
  give_node(gone);
}

bool RankHeap::valid() const {
  std::uint64_t live_bytes = 0;
  std::uint64_t all_bytes = 0;
  std::size_t live_blocks = 0;
  std::size_t free_blocks = 0;
  for (std::uint32_t segment = 0; segment < first_.size(); ++segment) {
    std::uint32_t before = kNone;
    std::uint64_t offset = 0;
    for (std::uint32_t at = first_[segment]; at != kNone; at = nodes_[at].after) {
      const Node& node = nodes_[at];
      if (node.segment != segment || node.offset != offset || node.before != before) return false;
      if (node.bytes == 0 || node.bytes % kBlockAlignment != 0) return false;
      if (!node.live && before != kNone && !nodes_[before].live) return false;
      (node.live ? live_blocks : free_blocks) += 1;
      live_bytes += node.live ? node.bytes : 0;
      offset += node.bytes;
      before = at;
    }
    all_bytes += offset;
  }
  std::size_t listed = 0;
  for (const auto& [bytes, head] : free_lists_) {
    std::uint32_t before = kNone;
    if (head == kNone) return false;
    for (std::uint32_t at = head; at != kNone; at = nodes_[at].list_after) {
      const Node& node = nodes_[at];
      if (node.live || node.bytes != bytes || node.list_before != before) return false;
      before = at;
      if (++listed > free_blocks) return false;
    }
  }
  std::size_t unused = 0;
  for (std::uint32_t at = unused_; at != kNone; at = nodes_[at].list_after) {
    if (++unused > nodes_.size()) return false;
  }
  return listed == free_blocks && free_blocks == free_blocks_ && live_blocks == live_blocks_ &&
         live_bytes == live_bytes_ && all_bytes == reserved_bytes_ &&
         live_blocks + free_blocks + unused == nodes_.size();
}

}  // namespace rankcast::memory
