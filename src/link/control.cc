#include "link/control.h"

#include <bit>
#include <new>

#include "base/rank_set.h"

namespace rankcast::link {
namespace {

constexpr std::uint64_t lines(std::uint64_t bytes) noexcept {
  return (bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
}

constexpr std::uint64_t kChannelsOffset = lines(sizeof(ControlHeader));

std::uint64_t slots_offset(int world_size) noexcept {
  return kChannelsOffset + static_cast<std::uint64_t>(world_size) * sizeof(Channel);
}

std::uint64_t shared_offset(int world_size, std::uint32_t ring_capacity) noexcept {
  return slots_offset(world_size) +
         static_cast<std::uint64_t>(world_size) * ring_capacity * sizeof(RecordBytes);
}

}  // namespace

std::uint64_t Control::bytes_needed(int world_size, std::uint32_t ring_capacity,
                                    std::uint64_t shared_bytes) noexcept {
  return shared_offset(world_size, ring_capacity) + lines(shared_bytes);
}

Control Control::create(std::byte* base, int world_size, std::uint32_t ring_capacity,
                        std::uint64_t shared_bytes) noexcept {
  Control control;
  control.header_ = new (base) ControlHeader();
  control.header_->world_size = static_cast<std::uint32_t>(world_size);
  control.header_->ring_capacity = ring_capacity;
  control.header_->slots_offset = slots_offset(world_size);
  control.header_->shared_offset = shared_offset(world_size, ring_capacity);
  control.header_->total_bytes = bytes_needed(world_size, ring_capacity, shared_bytes);
  for (int rank = 0; rank < world_size; ++rank) {
    new (base + kChannelsOffset + static_cast<std::size_t>(rank) * sizeof(Channel)) Channel();
  }
  control.point_into(base);
  return control;
}

base::Result<Control> Control::attach(std::byte* base, std::uint64_t bytes) {
  const auto damaged = [](const char* what) {
    return base::unexpected_failure(ErrorCode::internal, "damaged control memory: {}", what);
  };
  if (bytes < sizeof(ControlHeader)) return damaged("too small");
  Control control;
  control.header_ = std::launder(reinterpret_cast<ControlHeader*>(base));
  const ControlHeader& header = *control.header_;
  if (header.magic != ControlHeader::kMagic || header.format != ControlHeader().format)
    return damaged("another format");
  const int world_size = static_cast<int>(header.world_size);
  if (world_size < 1 || world_size > base::kMaxRanks || header.ring_capacity == 0 ||
      !std::has_single_bit(header.ring_capacity) || header.total_bytes > bytes ||
      header.slots_offset != slots_offset(world_size) ||
      header.shared_offset != shared_offset(world_size, header.ring_capacity) ||
      header.shared_offset > header.total_bytes)
    return damaged("its parts do not fit");
  control.point_into(base);
  return control;
}

void Control::point_into(std::byte* base) noexcept {
  channels_ = std::launder(reinterpret_cast<Channel*>(base + kChannelsOffset));
  slots_ = reinterpret_cast<RecordBytes*>(base + header_->slots_offset);
  shared_ = base + header_->shared_offset;
}

}  // namespace rankcast::link
