#include "memory/buffer_table.h"

#include <utility>

namespace rankcast::memory {

base::Result<base::TableKey> BufferTable::insert(const Block& block, std::uint64_t bytes) {
  base::Result<base::TableKey> key = rows_.allocate();
  if (key) {
    rows_.row(key->slot) = BufferRow{.block = block, .bytes = bytes};
    live_bytes_ += bytes;
  }
  return key;
}

std::vector<base::TableKey> BufferTable::keys() {
  std::vector<base::TableKey> keys;
  rows_.for_each([&keys](base::TableKey key, const BufferRow&) { keys.push_back(key); });
  return keys;
}

std::optional<BufferRow> BufferTable::remove(base::TableKey key) noexcept {
  const BufferRow* found = rows_.find(key);
  if (found == nullptr) return std::nullopt;
  const BufferRow row = *found;
  rows_.release(key);
  live_bytes_ -= row.bytes;
  return row;
}

}  // namespace rankcast::memory
