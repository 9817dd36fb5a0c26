#include "rank/buffers.h"

#include "base/generation_table.h"

namespace rankcast::rank {

base::Status Buffers::apply(const frame::TableChange& change, link::RankPort& port,
                            device::Device& device, std::uint32_t* users) {
  *users = 0;
  constexpr std::uint32_t kMaxSlots = base::GenerationTable<int>::kMaxRows;
  if (change.slot >= kMaxSlots) {
    return base::failure(ErrorCode::internal, "damaged side block: slot {} of at most {}",
                         change.slot, kMaxSlots);
  }
  if (change.slot >= entries_.size()) {
    entries_.resize(change.slot + 1);
    places_.resize(change.slot + 1);
  }
  Entry& entry = entries_[change.slot];
  *users = entry.users;
  if (change.generation == 0) {
    entry = Entry{};
    places_[change.slot] = Place{};
    return {};
  }
  std::uint64_t segment_bytes = 0;
  std::byte* base = port.segment(change.segment, &segment_bytes);
  if (base == nullptr || change.offset > segment_bytes ||
      change.bytes > segment_bytes - change.offset) {
    return base::failure(ErrorCode::internal,
                         "damaged side block: {} bytes at {} of segment {}, which has {}",
                         change.bytes, change.offset, change.segment, segment_bytes);
  }
  auto imported = imported_.find(change.segment);
  if (imported == imported_.end()) {
    auto address = device.import_segment(base, segment_bytes);
    if (!address) return std::move(address).error();
    imported = imported_.emplace(change.segment, static_cast<std::byte*>(*address)).first;
  }
  entry = {imported->second + change.offset, change.bytes, change.generation, 0};
  places_[change.slot] = {change.offset, change.bytes, change.segment};
  return {};
}

}  // namespace rankcast::rank
