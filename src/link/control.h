// The memory in which host and ranks meet: one layout for every link.
//
//   ControlHeader | Channel x world_size | record slots, ring_capacity x world_size | shared area
//
// Who writes and who reads each line is said at its member. Created zeroed by the host, then
// attached by each side. Ranks may be damaged: the host believes nothing here that a rank can write
// (of rings, base/record_ring.h; of reports, report_of; of runs, frame/report.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/atomic.h"
#include "base/doorbell.h"
#include "base/host_waiters.h"
#include "base/keeper_signal.h"
#include "base/record_ring.h"
#include "base/status.h"
#include "base/timeline.h"

namespace rankcast::link {

/// What a ring carries: 64 bytes that only host and rank understand.
struct alignas(base::kCacheLine) RecordBytes {
  std::byte bytes[base::kRecordBytes];
};
static_assert(sizeof(RecordBytes) == 64 && std::is_trivially_copyable_v<RecordBytes>);

using HostRing = base::RingWriter<RecordBytes>;
using RankRing = base::RingReader<RecordBytes>;

/// How far a rank has come in its life.
enum class RankState : std::uint32_t {
  starting,
  ready,
  failed,  // it never became ready, or it gave up: error_code and report say why
};

inline constexpr std::size_t kReportBytes = 440;

/// One rank's lines.
struct Channel {
  base::RingTail tail;      // host -> rank
  base::RingHead head;      // rank -> host
  base::Timeline timeline;  // rank (the keeper for a dead one) -> host and peers
  // Written by: the rank (the host before a successor starts). Read by: the host. Ordered by:
  // seq_cst, then HostWaiters::notify.
  alignas(base::kCacheLine) std::atomic<RankState> state{RankState::starting};
  // Written by the rank, once: before state, or before its timeline passes a record that it could
  // not answer otherwise. Read by the host after either.
  std::uint32_t error_code = 0;
  char report[kReportBytes] = {};  // the same; a text with a final 0
};
static_assert(sizeof(Channel) % base::kCacheLine == 0);

/// What a rank has reported through its channel: success as long as it has reported no failure;
/// `internal` for what no rank reports. Names the rank.
base::Status report_of(const Channel& channel, int rank);

struct ControlHeader {
  static constexpr std::uint32_t kMagic = 0x4c435352;  // "RSCL"

  std::uint32_t magic = kMagic;
  std::uint32_t format = 1;
  std::uint32_t world_size = 0;
  std::uint32_t ring_capacity = 0;
  std::uint64_t slots_offset = 0;
  std::uint64_t shared_offset = 0;
  std::uint64_t total_bytes = 0;
  base::Doorbell doorbell;
  base::HostWaiters waiters;
  base::KeeperWord keeper;
  // Not 0 once a rank has been lost: it may have died on either side of its decrement of a run's
  // countdown, so no rank is known to be a run's last one any more, and each tells the waiters.
  // Written by: the host, before it wakes them. Read by: ranks, at each end of a run. Ordered by:
  // seq_cst: the rank stores its timeline, then reads this; a waiter that is woken reads timelines.
  alignas(base::kCacheLine) std::atomic<std::uint32_t> rank_was_lost{0};
};

/// An attached control memory. A plain value that borrows the memory.
class Control {
 public:
  /// Bytes that create() needs, a multiple of 64.
  static std::uint64_t bytes_needed(int world_size, std::uint32_t ring_capacity,
                                    std::uint64_t shared_bytes) noexcept;
  /// Lays the memory out. `base` is zeroed and aligned to a cache line.
  static Control create(std::byte* base, int world_size, std::uint32_t ring_capacity,
                        std::uint64_t shared_bytes) noexcept;

  /// Attaches to memory that another process has laid out. Fails with `internal` for memory that is
  /// too small or was not laid out by create.
  static base::Result<Control> attach(std::byte* base, std::uint64_t bytes);

  int world_size() const noexcept { return world_size_; }
  base::Doorbell& doorbell() const noexcept { return header_->doorbell; }
  base::HostWaiters& waiters() const noexcept { return header_->waiters; }
  base::KeeperWord& keeper_word() const noexcept { return header_->keeper; }
  std::atomic<std::uint32_t>& rank_was_lost() const noexcept { return header_->rank_was_lost; }
  Channel& channel(int rank) const noexcept { return channels_[rank]; }
  std::span<RecordBytes> slots(int rank) const noexcept {
    return {slots_ + static_cast<std::size_t>(rank) * ring_capacity_, ring_capacity_};
  }
  std::byte* shared() const noexcept { return shared_; }

 private:
  void point_into(std::byte* base, int world_size, std::uint32_t ring_capacity) noexcept;

  // Sizes are kept here, once checked: every rank may write the memory.
  int world_size_ = 0;
  std::uint32_t ring_capacity_ = 0;
  ControlHeader* header_ = nullptr;  // borrowed from the link's memory, which outlives every use
  Channel* channels_ = nullptr;
  RecordBytes* slots_ = nullptr;
  std::byte* shared_ = nullptr;
};

}  // namespace rankcast::link
