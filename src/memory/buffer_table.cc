#include "memory/buffer_table.h"

#include <algorithm>
#include <cstddef>
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

std::vector<BufferTable::Sized> BufferTable::largest(std::size_t most) {
  std::vector<Sized> all;
  rows_.for_each(
      [&all](base::TableKey key, const BufferRow& row) { all.push_back({key, row.bytes}); });
  const auto larger = [](const Sized& a, const Sized& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.key.slot < b.key.slot;
  };
  const std::size_t count = std::min(most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                    larger);
  all.resize(count);
  return all;
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
