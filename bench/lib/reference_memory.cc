#include "bench/lib/reference_memory.h"

#include <memory>
#include <new>

namespace rankcast::bench {

namespace {

constexpr std::uint64_t kMagic = 0x6563'6e65'7265'6665;
constexpr std::size_t kBufferAlignment = 256;
constexpr std::size_t kPage = 4096;

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(ReferenceHead) % alignof(ReferenceLane) == 0);

constexpr std::size_t round_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

ReferenceMemory::ReferenceMemory(std::byte* base, const ReferenceSizes& sizes)
    : base_(base), sizes_(sizes) {
  const std::size_t frame_bytes = sizes.args * sizeof(ReferenceSlot);
  layouts_at_ = sizeof(ReferenceHead) + sizes.ranks * sizeof(ReferenceLane);
  tags_at_ = layouts_at_ + sizes.args * sizeof(ReferenceLayout);
  frames_at_ = round_up(tags_at_ + sizes.args, kPage);
  gap_ = round_up(frame_bytes, kBufferAlignment) - frame_bytes;
  stride_ = round_up(frame_bytes + gap_ + sizes.tensor_bytes, kPage);
}

std::size_t ReferenceMemory::bytes_needed(const ReferenceSizes& sizes) {
  return ReferenceMemory(nullptr, sizes).bytes();
}

ReferenceMemory ReferenceMemory::create(std::byte* base, const ReferenceSizes& sizes) {
  const ReferenceMemory memory(base, sizes);
  new (base) ReferenceHead();
  memory.head().magic = kMagic;
  memory.head().sizes = sizes;
  for (std::size_t rank = 0; rank < sizes.ranks; ++rank) {
    new (&memory.lane(rank)) ReferenceLane();
    std::uninitialized_default_construct_n(memory.frame(rank), sizes.args);
  }
  std::uninitialized_default_construct_n(memory.layouts().data(), sizes.args);
  return memory;
}

std::optional<ReferenceMemory> ReferenceMemory::attach(std::byte* base, std::size_t bytes) {
  if (bytes < sizeof(ReferenceHead)) return std::nullopt;
  const auto& head = *reinterpret_cast<const ReferenceHead*>(base);
  if (head.magic != kMagic) return std::nullopt;
  const ReferenceMemory memory(base, head.sizes);
  if (memory.bytes() > bytes) return std::nullopt;
  return memory;
}

}  // namespace rankcast::bench
