// Layouts by number: for a run's frames (an index) and between runs (an id).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/scratch.h"
#include "frame/records.h"

namespace rankcast::program {

/// Equal layouts have equal ids for as long as the table is not emptied, and equal indices within a
/// run. One thread at a time. Allocates for a layout that it has not met.
class LayoutTable {
 public:
  /// More are forgotten, all at once, at the next begin_run.
  static constexpr std::size_t kMax = 4096;

  struct Numbers {
    std::uint32_t id = 0;
    std::uint32_t index = 0;
  };

  /// True if the table was emptied: ids of earlier runs mean nothing any more.
  bool begin_run();

  /// Numbers of `layout`; puts it into the run's `layouts` when it is new there. Cheapest for the
  /// layout asked for last.
  Numbers intern(const frame::LayoutRecord& layout, base::Scratch<frame::LayoutRecord>& layouts) {
    if (last_ >= entries_.size() || entries_[last_].layout != layout) last_ = find_or_add(layout);
    Entry& entry = entries_[last_];
    if (entry.run != run_) {
      entry.run = run_;
      entry.index = static_cast<std::uint32_t>(layouts.size());
      layouts.push(layout);
    }
    return {last_, entry.index};
  }

  const frame::LayoutRecord& at(std::uint32_t id) const noexcept { return entries_[id].layout; }

 private:
  struct Entry {
    frame::LayoutRecord layout;
    std::uint64_t run = 0;  // in which `index` holds
    std::uint32_t index = 0;
  };

  std::uint32_t find_or_add(const frame::LayoutRecord& layout);

  std::vector<Entry> entries_;                                     // by id
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;  // hash -> id
  std::uint64_t run_ = 0;
  std::uint32_t last_ = 0;  // id found last
};

}  // namespace rankcast::program
