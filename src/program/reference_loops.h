// The innermost loops of a dispatch: descriptors out of references to the submit's arguments.
//
// Each works on one task, on one rank: entry by entry, from the i-th argument on, and returns the
// number of the first argument that it cannot do (no reference, a shard that is not there, another
// rank's, no longer live), or their count. Why it cannot is the caller's to say. No failure, no
// allocation; tables may change meanwhile (PROTOCOL P1 says why that is enough).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "frame/records.h"
#include "memory/buffer_table.h"
#include "rankcast/program.h"

namespace rankcast::program {

/// Encodes descriptors, and into `signature` one word an argument: (layout id << 3) | tag.
std::size_t encode_references(std::span<const detail::ArgumentEntry> entries,
                              const memory::BufferTable& table, int rank,
                              std::span<const detail::TaskArgument> arguments, std::size_t i,
                              frame::ArgumentRecord* records, std::uint32_t* signature) noexcept;

/// Of descriptors that were encoded before, turns those to new places whose entry has changed, and
/// counts them.
std::size_t replace_references(std::span<const detail::ArgumentEntry> entries,
                               const memory::BufferTable& table, int rank,
                               std::span<const detail::TaskArgument> arguments, std::size_t i,
                               frame::ArgumentRecord* records, std::uint64_t* replaced) noexcept;

/// Whether every descriptor of a task that names a buffer names a live one.
bool all_live(const memory::BufferTable& table,
              std::span<const frame::ArgumentRecord> records) noexcept;

/// Copies two neighbouring 32-bit fields as one word.
inline void copy_pair(std::uint32_t* to, const std::uint32_t* from) noexcept {
  std::memcpy(to, from, 2 * sizeof(std::uint32_t));
}
static_assert(offsetof(frame::ArgumentRecord, generation) ==
                  offsetof(frame::ArgumentRecord, slot) + 4 &&
              offsetof(detail::Shard, generation) == offsetof(detail::Shard, slot) + 4);

/// Turns a descriptor to another buffer of the same rank and layout.
inline void point_at(frame::ArgumentRecord* record, const detail::Shard& shard,
                     std::uint64_t offset) noexcept {
  record->offset = offset;
  copy_pair(&record->slot, &shard.slot);
}

}  // namespace rankcast::program
