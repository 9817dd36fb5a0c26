// The slot map behind every handle (PROTOCOL P1): a handle is live while its slot still has its
// generation.
//
//   slot          24 bits   16,777,216 rows, in chunks of 4,096 that never move
//   generation    32 bits   odd: live, even: free; each use of a slot takes two. A slot serves
//   2,147,483,648 times and
//                           is then retired: 36 minutes of a million reuses a second of one slot,
//                           and 1,100 years of the same over all slots
//
// No slot answers to an old handle again, and none to the zero handle (slot 0, generation 0).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/atomic.h"
#include "base/check.h"
#include "base/fault_point.h"
#include "base/status.h"

namespace rankcast::base {

/// What a handle carries.
struct TableKey {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  ///< Odd for every key that allocate() gave.

  friend constexpr bool operator==(const TableKey&, const TableKey&) noexcept = default;
};

/// Rows of type Row (default constructible; assigned Row{} when its slot is released), named by
/// slot and generation.
///
/// Threads: live() from any thread without a lock. Everything else, and every row, under the
/// caller's mutex (the mesh's). The answer of live() may be old on return; P1 says why that is
/// enough: `free` bumps the generation and the mesh's epoch under the mutex, and a submit compares
/// the epoch under the mutex before it publishes and, if it moved, checks all handles again there.
/// Ownership: owns all rows; nothing is given back before its end, so references stay good.
/// Failure: allocate() alone, which then changes nothing.
/// Cost: live() is two loads, a compare and a bounds check; allocate() and release() are constant,
/// but for a new chunk.
template <class Row, std::uint32_t kFirstGeneration = 0>
class GenerationTable {
  static_assert(kFirstGeneration % 2 == 0, "a fresh slot is free");

 public:
  static constexpr std::uint32_t kRowsPerChunk = 4096;
  static constexpr std::uint32_t kMaxChunks = 4096;
  static constexpr std::uint32_t kMaxRows = kRowsPerChunk * kMaxChunks;

  /// `max_rows` caps the slots ever made.
  explicit GenerationTable(std::uint32_t max_rows = kMaxRows) noexcept
      : max_rows_(std::min(max_rows, kMaxRows)) {}
  ~GenerationTable() {
    for (std::uint32_t i = 0; i < kMaxChunks; ++i) delete chunk_locked(i);
  }
  GenerationTable(const GenerationTable&) = delete;
  GenerationTable& operator=(const GenerationTable&) = delete;

  /// True if `key` names a live row. Any slot and generation may be asked.
  bool live(TableKey key) const noexcept {
    if (key.slot >= kMaxRows) return false;
    const Chunk* chunk = load_acquire(chunks_[key.slot / kRowsPerChunk]);  // pairs: table-chunk
    if (chunk == nullptr) return false;
    // relaxed: the mesh's epoch, compared under the mutex before publication, orders it (P1)
    const std::uint32_t now = load_relaxed(chunk->generations[key.slot % kRowsPerChunk]);
    return ((now ^ key.generation) | (~key.generation & 1u)) == 0;
  }

  /// The same for a key that allocate() of this table gave, whatever has become of it since: its
  /// chunk exists and its generation is odd. Two loads and a compare.
  bool still_live(TableKey key) const noexcept {
    RC_DCHECK(key.slot < kMaxRows && key.generation % 2 == 1);
    const Chunk* chunk = load_acquire(chunks_[key.slot / kRowsPerChunk]);  // pairs: table-chunk
    RC_DCHECK(chunk != nullptr);
    // relaxed: as in live()
    return load_relaxed(chunk->generations[key.slot % kRowsPerChunk]) == key.generation;
  }

  /// A free slot made live: the one released last, else a fresh one. Fails with out_of_memory when
  /// all `max_rows` are taken or no memory is left for a chunk.
  Result<TableKey> allocate() {
    if (free_head_ == kNone) {
      if (Status grown = add_fresh_slot(); !grown.ok()) return tl::unexpected(std::move(grown));
    }
    const std::uint32_t slot = free_head_;
    Chunk& chunk = *chunk_locked(slot / kRowsPerChunk);
    const std::uint32_t index = slot % kRowsPerChunk;
    free_head_ = chunk.next_free[index];
    ++live_count_;
    return TableKey{slot, bump(chunk.generations[index])};
  }

  /// Makes every copy of the key stale, clears the row and frees the slot. False, and nothing
  /// changed, if it is not live. Never allocates.
  bool release(TableKey key) noexcept {
    if (!live(key)) return false;
    Chunk& chunk = *chunk_locked(key.slot / kRowsPerChunk);
    const std::uint32_t index = key.slot % kRowsPerChunk;
    chunk.rows[index] = Row{};
    --live_count_;
    // A last generation of 0xffffffff wraps to 0: even, so nothing is live there, and the slot is
    // never used again.
    if (bump(chunk.generations[index]) == 0) {
      ++retired_count_;
      return true;
    }
    chunk.next_free[index] = free_head_;
    free_head_ = key.slot;
    return true;
  }

  /// The row of a live key; null if it is not live.
  Row* find(TableKey key) noexcept { return live(key) ? &row(key.slot) : nullptr; }
  const Row* find(TableKey key) const noexcept {
    return const_cast<GenerationTable*>(this)->find(key);
  }

  /// The row of a slot that is known to be live.
  Row& row(std::uint32_t slot) noexcept {
    Chunk* chunk = chunk_locked(slot / kRowsPerChunk);
    RC_DCHECK(chunk != nullptr);
    return chunk->rows[slot % kRowsPerChunk];
  }

  /// Calls `visit(key, row)` for each live row, by slot.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::uint32_t slot = 0; slot < slots_made_; ++slot) {
      Chunk& chunk = *chunk_locked(slot / kRowsPerChunk);
      // relaxed: generations change under the caller's mutex only, which is held
      const std::uint32_t now = load_relaxed(chunk.generations[slot % kRowsPerChunk]);
      if (now % 2 == 1) visit(TableKey{slot, now}, chunk.rows[slot % kRowsPerChunk]);
    }
  }

  std::uint32_t live_count() const noexcept { return live_count_; }
  std::uint32_t retired_count() const noexcept { return retired_count_; }
  std::uint32_t max_rows() const noexcept { return max_rows_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;

  struct Chunk {
    Chunk() noexcept {
      // relaxed: the chunk is published by the release store of its pointer
      for (auto& generation : generations) store_relaxed(generation, kFirstGeneration);
    }
    // Written by: allocate and release, under the mesh's mutex. Read by: any thread.
    // Ordered by: the mesh's epoch and mutex (P1); the first value by the chunk's pointer.
    std::array<std::atomic<std::uint32_t>, kRowsPerChunk> generations;
    std::array<std::uint32_t, kRowsPerChunk> next_free{};
    std::array<Row, kRowsPerChunk> rows{};
  };

  Chunk* chunk_locked(std::uint32_t index) const noexcept {
    // relaxed: chunks are added under the caller's mutex, which is held, or nobody else is left
    return load_relaxed(chunks_[index]);
  }

  static std::uint32_t bump(std::atomic<std::uint32_t>& generation) noexcept {
    // relaxed: one writer at a time, under the mutex; readers are ordered by the epoch (P1)
    const std::uint32_t next = load_relaxed(generation) + 1;
    store_relaxed(generation, next);  // relaxed: as above
    return next;
  }

  Status add_fresh_slot() {
    if (slots_made_ == max_rows_ || RANKCAST_FAULT_POINT("base.table_full")) {
      return failure(ErrorCode::out_of_memory,
                     "the table is full: {} rows, {} of them live, {} retired; free what is of no "
                     "more use, or put several tensors into one",
                     max_rows_, live_count_, retired_count_);
    }
    const std::uint32_t index = slots_made_ / kRowsPerChunk;
    if (slots_made_ % kRowsPerChunk == 0) {
      Chunk* chunk = RANKCAST_FAULT_POINT("base.table_chunk") ? nullptr : new (std::nothrow) Chunk;
      if (chunk == nullptr) {
        return failure(ErrorCode::out_of_memory, "no memory for {} more table rows ({} bytes)",
                       kRowsPerChunk, sizeof(Chunk));
      }
      store_release(chunks_[index], chunk);  // pairs: table-chunk
    }
    chunk_locked(index)->next_free[slots_made_ % kRowsPerChunk] = kNone;
    free_head_ = slots_made_++;
    return {};
  }

  // Written by: allocate, under the mesh's mutex; each entry once. Read by: any thread.
  // Ordered by: release once the chunk is filled, acquire in live() (pairs: table-chunk).
  std::array<std::atomic<Chunk*>, kMaxChunks> chunks_{};
  std::uint32_t max_rows_;
  std::uint32_t slots_made_ = 0;
  std::uint32_t free_head_ = kNone;
  std::uint32_t live_count_ = 0;
  std::uint32_t retired_count_ = 0;
};

}  // namespace rankcast::base
