// One rank's live buffers: what makes a handle live, and where its bytes are (P1, P10).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/generation_table.h"
#include "base/status.h"
#include "memory/heap.h"

namespace rankcast::memory {

/// What the host knows of one buffer.
struct BufferRow {
  Block block;
  std::uint64_t bytes = 0;  ///< As asked for.
};

/// Rows named by (slot, generation), in no order. A name that was removed never answers again,
/// whatever took its slot.
///
/// Threads: `live` from any thread, without a lock; its answer may be old on return, and P1 says
/// why a submit may rely on it. Everything else under the mesh's mutex. Rows never move while their
/// buffer lives. Ownership: of the rows; the memory of a removed row is the caller's to give back.
/// Cost: constant.
class BufferTable {
 public:
  /// The most buffers that are ever live at once.
  static constexpr std::uint32_t kMaxBuffers = base::GenerationTable<BufferRow>::kMaxRows;

  explicit BufferTable(std::uint32_t max_buffers = kMaxBuffers) noexcept : rows_(max_buffers) {}

  /// Names a new buffer. Fails with `out_of_memory`, with the numbers of the table, when it is
  /// full; nothing has changed then.
  base::Result<base::TableKey> insert(const Block& block, std::uint64_t bytes);

  /// Makes every copy of the name stale and returns what it named; nothing when it was stale
  /// already.
  std::optional<BufferRow> remove(base::TableKey key) noexcept;

  bool live(base::TableKey key) const noexcept { return rows_.live(key); }

  /// The same for a key that this table gave, whatever has become of it since: the path of a
  /// dispatch, where the mesh and the rank of a handle have been compared.
  bool still_live(base::TableKey key) const noexcept { return rows_.still_live(key); }

  /// Null when stale.
  const BufferRow* find(base::TableKey key) const noexcept { return rows_.find(key); }

  /// Of all live buffers, by slot.
  std::vector<base::TableKey> keys();

  /// The largest live buffers, at most `most`, the largest first, then by slot.
  struct Sized {
    base::TableKey key;
    std::uint64_t bytes = 0;
  };
  std::vector<Sized> largest(std::size_t most);

  std::uint64_t live_buffers() const noexcept { return rows_.live_count(); }
  /// As asked for.
  std::uint64_t live_bytes() const noexcept { return live_bytes_; }

 private:
  base::GenerationTable<BufferRow> rows_;
  std::uint64_t live_bytes_ = 0;
};

}  // namespace rankcast::memory
