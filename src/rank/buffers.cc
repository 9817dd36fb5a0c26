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
  auto imported = import(change.segment, port, device);
  if (!imported) return std::move(imported).error();
  entry = {*imported + change.offset, change.bytes, change.generation, 0};
  places_[change.slot] = {change.offset, change.bytes, change.segment};
  return {};
}

base::Result<std::byte*> Buffers::import(std::uint32_t segment, link::RankPort& port,
                                         device::Device& device) {
  if (const auto known = imported_.find(segment); known != imported_.end()) return known->second;
  std::uint64_t bytes = 0;
  std::byte* const base = port.segment(segment, &bytes);
  if (base == nullptr) {
    return base::unexpected_failure(ErrorCode::internal, "segment {} is not there", segment);
  }
  auto address = device.import_segment(base, bytes);
  if (!address) return tl::unexpected(std::move(address).error());
  return imported_.emplace(segment, static_cast<std::byte*>(*address)).first->second;
}

}  // namespace rankcast::rank
