// A rank's own table of its buffers: slot -> where the bytes are. It changes only by the records of
// its own lane, in their order (PROTOCOL P10), and never looks at the host's generations: a frame
// that was accepted before a free still runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "frame/records.h"
#include "link/rank_port.h"

namespace rankcast::rank {

/// Used by the rank's thread alone.
class Buffers {
 public:
  struct Entry {
    std::byte* address = nullptr;  // as the device reaches it
    std::uint64_t bytes = 0;
    std::uint32_t generation = 0;  // 0: nobody has the slot
    std::uint32_t users = 0;       // a bit for each kept frame that was resolved through this
  };

  /// Where the bytes of a slot lie, as the host and other ranks name them.
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t segment = 0;
  };

  /// Applies one change; `users` gets those of the entry as it was. Fails with `internal` for a
  /// segment that nobody added or a place outside of it, or with what the device says when it
  /// cannot import the segment.
  base::Status apply(const frame::TableChange& change, link::RankPort& port, device::Device& device,
                     std::uint32_t* users);

  /// The device's address of a segment's first byte. Fails as `apply` does.
  base::Result<std::byte*> import(std::uint32_t segment, link::RankPort& port,
                                  device::Device& device);

  /// By slot.
  std::span<Entry> entries() noexcept { return entries_; }

  /// The entry of a slot; an empty one for a slot out of range.
  Entry at(std::uint32_t slot) const noexcept {
    return slot < entries_.size() ? entries_[slot] : Entry{};
  }
  /// The place of a slot; no bytes for one that nobody has.
  Place place(std::uint32_t slot) const noexcept {
    return slot < places_.size() ? places_[slot] : Place{};
  }

 private:
  std::vector<Entry> entries_;
  std::vector<Place> places_;  // likewise; apart, since a dispatch reads entries alone
  std::unordered_map<std::uint32_t, std::byte*> imported_;  // segment -> device address
};

}  // namespace rankcast::rank
