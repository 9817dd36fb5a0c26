#include "program/reference_loops.h"

namespace rankcast::program {

using detail::ArgumentEntry;
using detail::Shard;
using detail::TaskArgument;
using frame::ArgumentRecord;

static_assert(offsetof(ArgumentRecord, argument) == offsetof(ArgumentRecord, layout) + 4 &&
              offsetof(ArgumentEntry, number) == offsetof(ArgumentEntry, layout_index) + 4);

static_assert(offsetof(ArgumentRecord, tag) == offsetof(ArgumentRecord, lane) + 4 &&
              offsetof(ArgumentRecord, place) == offsetof(ArgumentRecord, lane) + 5 &&
              offsetof(ArgumentRecord, reserved) == offsetof(ArgumentRecord, lane) + 6 &&
              sizeof(ArgumentRecord) == offsetof(ArgumentRecord, lane) + 8);

// Out of line: its caller would spill its registers.
std::size_t encode_references(std::span<const ArgumentEntry> entries,
                              const memory::BufferTable& table, int rank,
                              std::span<const TaskArgument> arguments, std::size_t i,
                              ArgumentRecord* records, std::uint32_t* signature) noexcept {
  const std::uint64_t on_lane =
      static_cast<std::uint32_t>(rank) | static_cast<std::uint64_t>(frame::Place::buffer) << 40;
  for (; i < arguments.size(); ++i) {
    const TaskArgument& argument = arguments[i];
    if (argument.number >= entries.size()) return i;
    const ArgumentEntry& entry = entries[argument.number];
    if (argument.shard >= entry.shard_count) return i;
    const Shard& shard = entry.shards[argument.shard];
    // The tensor is this mesh's: only a table of the same rank may be asked.
    if (shard.rank != rank || !table.still_live({shard.slot, shard.generation})) return i;
    ArgumentRecord& record = records[i];
    point_at(&record, shard, entry.offset_bytes);
    copy_pair(&record.layout, &entry.layout_index);
    const std::uint64_t place = on_lane | static_cast<std::uint64_t>(argument.tag) << 32;
    std::memcpy(&record.lane, &place, sizeof(place));
    signature[i] = entry.layout_id << 3 | argument.tag;
  }
  return i;
}

std::size_t replace_references(std::span<const ArgumentEntry> entries,
                               const memory::BufferTable& table, int rank,
                               std::span<const TaskArgument> arguments, std::size_t i,
                               ArgumentRecord* records, std::uint64_t* replaced) noexcept {
  std::uint64_t count = 0;
  for (; i < arguments.size(); ++i) {
    const TaskArgument& argument = arguments[i];
    if (argument.number >= entries.size()) break;
    const ArgumentEntry& entry = entries[argument.number];
    if (!entry.changed) continue;
    if (argument.shard >= entry.shard_count) break;
    const Shard& shard = entry.shards[argument.shard];
    if (shard.rank != rank || !table.still_live({shard.slot, shard.generation})) break;
    point_at(&records[i], shard, entry.offset_bytes);
    ++count;
  }
  *replaced += count;
  return i;
}

bool all_live(const memory::BufferTable& table, std::span<const ArgumentRecord> records) noexcept {
  for (const ArgumentRecord& record : records) {
    if (record.place == frame::Place::buffer &&
        !table.still_live({record.slot, record.generation})) {
      return false;
    }
  }
  return true;
}

}  // namespace rankcast::program
