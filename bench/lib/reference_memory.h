// What the host and the ranks of a reference share: one piece of memory of one layout, without
// pointers, so that a rank may be a thread or a process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/atomic.h"
#include "base/spin.h"
#include "rankcast/kernel_abi.h"
#include "rankcast/shape.h"

namespace rankcast::bench {

/// Whom a ring reaches.
enum class Bell : std::uint32_t {
  each,  ///< One word a rank; a sleeping rank costs one wake-up call.
  all,   ///< One word for all; one wake-up call reaches all sleepers.
};

/// A row of the table that handles are checked against, and, copied whole, the wire form of a
/// tensor: a copy from memory that nobody has just written is the cheapest there is.
struct alignas(64) ReferenceSlot {
  std::uint32_t generation = 0;
  std::uint32_t layout = 0;  // row of ReferenceMemory::layouts
  std::uint64_t id = 0;
  std::uint64_t offset = 0;  // in the rank's memory
  std::uint64_t bytes = 0;
  DLDataType dtype{};
  std::array<std::uint32_t, 7> rest{};
};
static_assert(sizeof(ReferenceSlot) == 64);

/// Of one tensor; the same on all ranks.
struct ReferenceLayout {
  std::array<std::int64_t, kMaxDims> shape{};
  std::array<std::int64_t, kMaxDims> strides{};
  std::int32_t dims = 0;
  DLDataType dtype{};
};

struct alignas(base::kCacheLine) ReferenceLane {
  // Written by the host, read by the rank; ordered by itself (label reference-bell).
  std::atomic<std::uint32_t> bell{0};
  // Written by the rank, read by the host; ordered by seq_cst in the race of Reference::ring.
  alignas(base::kCacheLine) std::atomic<std::uint32_t> asleep{0};
  std::int64_t entry_ns = 0;  // written by the rank, read by the host after the round
  int status = RANKCAST_OK;   // the same
  rankcast_failure failure{};
};

struct ReferenceSizes {
  std::uint32_t ranks = 0;
  std::uint32_t args = 0;
  std::uint64_t tensor_bytes = 0;  // of one rank, together
};

struct ReferenceHead {
  std::uint64_t magic = 0;
  ReferenceSizes sizes;
  // Written by the host before ranks start, then read by all.
  Bell bell = Bell::each;
  std::uint32_t first_round = 0;
  base::SpinPolicy spin;

  // Written by the host, read by all ranks; ordered by itself (label reference-bell).
  alignas(base::kCacheLine) std::atomic<std::uint32_t> bell_for_all{0};
  // Written by ranks around their sleep, read by the host; ordered by seq_cst in the race of
  // Reference::ring.
  alignas(base::kCacheLine) std::atomic<std::uint32_t> ranks_asleep{0};
  // Written by the host before a ring and by ranks, read by ranks; ordered by the bell and by
  // itself (label reference-done).
  alignas(base::kCacheLine) std::atomic<std::uint32_t> left{0};
  // Written by the last rank of a round, read by the host; ordered by itself (label
  // reference-done).
  alignas(base::kCacheLine) std::atomic<std::uint32_t> done{0};
  // Written by the host around its sleep, read by the last rank; ordered by seq_cst in the race of
  // Reference::wait_done.
  alignas(base::kCacheLine) std::atomic<std::uint32_t> host_asleep{0};
  // Written by the host before it rings for the last time, read by ranks; ordered by the bell.
  std::atomic<std::uint32_t> stop{0};
  // Ranks that have prepared their kernel, or failed to. Written by ranks, read by the host;
  // ordered by itself (label reference-ready).
  std::atomic<std::uint32_t> ready{0};
};

/// A view of the memory, which whoever has it mapped keeps alive. Copies are cheap. Who may touch
/// what and when is said by the members above; frames and tensors are the host's between rounds and
/// the rank's in one.
class ReferenceMemory {
 public:
  static std::size_t bytes_needed(const ReferenceSizes& sizes);
  /// Lays out zeroed, page-aligned memory of so many bytes.
  static ReferenceMemory create(std::byte* base, const ReferenceSizes& sizes);
  /// What another process has laid out; nothing if it is no such memory, or less of it.
  static std::optional<ReferenceMemory> attach(std::byte* base, std::size_t bytes);

  ReferenceMemory() = default;

  ReferenceHead& head() const { return *reinterpret_cast<ReferenceHead*>(base_); }
  std::size_t ranks() const { return sizes_.ranks; }
  std::size_t args() const { return sizes_.args; }
  ReferenceLane& lane(std::size_t rank) const {
    return reinterpret_cast<ReferenceLane*>(base_ + sizeof(ReferenceHead))[rank];
  }
  std::span<ReferenceLayout> layouts() const {
    return {reinterpret_cast<ReferenceLayout*>(base_ + layouts_at_), args()};
  }
  std::span<std::uint8_t> tags() const {
    return {reinterpret_cast<std::uint8_t*>(base_ + tags_at_), args()};
  }
  ReferenceSlot* frame(std::size_t rank) const {
    return reinterpret_cast<ReferenceSlot*>(base_ + frames_at_ + rank * stride_);
  }
  /// Aligned to 256 bytes.
  std::byte* tensors(std::size_t rank) const {
    return base_ + frames_at_ + rank * stride_ + sizes_.args * sizeof(ReferenceSlot) + gap_;
  }

 private:
  ReferenceMemory(std::byte* base, const ReferenceSizes& sizes);
  std::size_t bytes() const { return frames_at_ + sizes_.ranks * stride_; }

  std::byte* base_ = nullptr;
  ReferenceSizes sizes_;
  std::size_t layouts_at_ = 0;
  std::size_t tags_at_ = 0;
  std::size_t frames_at_ = 0;
  std::size_t gap_ = 0;     // between a rank's frame and its tensors
  std::size_t stride_ = 0;  // from one rank's frame to the next one's
};

}  // namespace rankcast::bench
