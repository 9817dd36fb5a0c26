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

LayoutTable::Numbers LayoutTable::intern(const frame::LayoutRecord& layout,
                                         base::Scratch<frame::LayoutRecord>& layouts) {
  if (last_ >= entries_.size() || entries_[last_].layout != layout) last_ = find_or_add(layout);
  Entry& entry = entries_[last_];
  if (entry.run != run_) {
    entry.run = run_;
    entry.index = static_cast<std::uint32_t>(layouts.size());
    layouts.push(layout);
  }
  return {last_, entry.index};
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
