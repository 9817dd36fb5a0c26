#include "link/control.h"

#include <new>

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
  control.channels_ = std::launder(reinterpret_cast<Channel*>(base + kChannelsOffset));
  control.slots_ = reinterpret_cast<RecordBytes*>(base + control.header_->slots_offset);
  control.shared_ = base + control.header_->shared_offset;
  return control;
}

}  // namespace rankcast::link
