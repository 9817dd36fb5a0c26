#include "link/control.h"

#include <bit>
#include <new>

#include "base/rank_set.h"
#include "base/untrusted.h"

namespace rankcast::link {
namespace {

constexpr std::uint64_t lines(std::uint64_t bytes) noexcept {
  return (bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
}

constexpr std::uint32_t kMaxRingCapacity = 1u << 20;
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
  auto* const header = new (base) ControlHeader();
  header->world_size = static_cast<std::uint32_t>(world_size);
  header->ring_capacity = ring_capacity;
  header->slots_offset = slots_offset(world_size);
  header->shared_offset = shared_offset(world_size, ring_capacity);
  header->total_bytes = bytes_needed(world_size, ring_capacity, shared_bytes);
  for (int rank = 0; rank < world_size; ++rank) {
    new (base + kChannelsOffset + static_cast<std::size_t>(rank) * sizeof(Channel)) Channel();
  }
  control.point_into(base, world_size, ring_capacity);
  return control;
}

base::Result<Control> Control::attach(std::byte* base, std::uint64_t bytes) {
  const auto damaged = [](const char* what) {
    return base::unexpected_failure(ErrorCode::internal, "damaged control memory: {}", what);
  };
  if (bytes < sizeof(ControlHeader)) return damaged("too small");
  const auto& header = *std::launder(reinterpret_cast<const ControlHeader*>(base));
  if (header.magic != ControlHeader::kMagic || header.format != ControlHeader().format)
    return damaged("another format");
  // Read once, then checked: others may write it.
  const std::uint32_t ranks = header.world_size;
  const std::uint32_t ring_capacity = header.ring_capacity;
  const std::uint64_t total_bytes = header.total_bytes;
  if (ranks < 1 || ranks > base::kMaxRanks || !std::has_single_bit(ring_capacity) ||
      ring_capacity > kMaxRingCapacity || total_bytes > bytes ||
      header.slots_offset != slots_offset(static_cast<int>(ranks)) ||
      header.shared_offset != shared_offset(static_cast<int>(ranks), ring_capacity) ||
      shared_offset(static_cast<int>(ranks), ring_capacity) > total_bytes)
    return damaged("its parts do not fit");
  Control control;
  control.point_into(base, static_cast<int>(ranks), ring_capacity);
  return control;
}

void Control::point_into(std::byte* base, int world_size, std::uint32_t ring_capacity) noexcept {
  world_size_ = world_size;
  ring_capacity_ = ring_capacity;
  header_ = std::launder(reinterpret_cast<ControlHeader*>(base));
  channels_ = std::launder(reinterpret_cast<Channel*>(base + kChannelsOffset));
  slots_ = reinterpret_cast<RecordBytes*>(base + slots_offset(world_size));
  shared_ = base + shared_offset(world_size, ring_capacity);
}

base::Status report_of(const Channel& channel, int rank) {
  const std::uint32_t number = channel.error_code;
  if (number == 0 && base::load_seq_cst(channel.state) != RankState::failed) return {};
  const auto code = base::error_code_of(number);
  const std::string text = base::printable(channel.report, kReportBytes);
  base::Status status =
      code ? base::failure(*code, "rank {}: {}", rank, text)
           : base::failure(ErrorCode::internal,
                           "rank {} reports error code {}, which is none, with the text \"{}\"",
                           rank, number, text);
  return std::move(status).with_rank(rank);
}

}  // namespace rankcast::link
