#include "mesh/table_changes.h"

#include <algorithm>

namespace rankcast::mesh {

void TableChanges::add(const frame::TableChange& change) {
  if (changes_.size() >= limit_) drop_overtaken();
  changes_.push_back(change);
}

void TableChanges::drop_overtaken() {
  std::uint32_t slots = 0;
  for (const frame::TableChange& change : changes_) slots = std::max(slots, change.slot + 1);
  std::vector<bool> overtaken(slots);
  // From the last on, and what stays is moved to the end.
  auto kept = changes_.end();
  for (auto change = changes_.end(); change != changes_.begin();) {
    --change;
    if (overtaken[change->slot]) continue;
    overtaken[change->slot] = true;
    *--kept = *change;
  }
  changes_.erase(changes_.begin(), kept);
  limit_ = std::max(kFew, 2 * changes_.size());
}

}  // namespace rankcast::mesh
