#include "program/layout_table.h"

#include "tensor/layout.h"

namespace rankcast::program {

bool LayoutTable::begin_run() {
  ++run_;
  if (entries_.size() <= kMax) return false;
  entries_.clear();
  by_hash_.clear();
  last_ = 0;
  return true;
}

std::uint32_t LayoutTable::find_or_add(const frame::LayoutRecord& layout) {
  const std::uint64_t hash = tensor::layout_hash(layout);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (entries_[it->second].layout == layout) return it->second;
  }
  const auto id = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back({layout, 0, 0});
  by_hash_.emplace(hash, id);
  return id;
}

}  // namespace rankcast::program
