// The in-run reference of the thread link: what a mesh is measured against.
//
// A bare loop over rank threads: a table of slots with generations, one frame and one doorbell a
// rank. A round checks a generation-checked handle for every tensor of every rank, packs all
// frames, rings, and waits until the last rank has counted down. A rank stamps its entry, decodes
// its descriptors into tensors with resolved pointers, and runs the job's kernel once. Nothing
// else: no errors of a user, no second run in flight, no order between runs, no frees.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic.h"
#include "base/spin.h"
#include "base/stream_store.h"
#include "bench/lib/job.h"
#include "bench/lib/side.h"
#include "rankcast/kernel_abi.h"

namespace rankcast::bench {

/// What a submit does to the frames.
enum class Packing {
  repacked,  ///< Checks all handles and writes every descriptor.
  reused,    ///< Checks all handles; the frames stay as they are.
};

/// Whom a ring reaches.
enum class Bell {
  each,  ///< One word a rank; a sleeping rank costs one wake-up call.
  all,   ///< One word for all; one wake-up call reaches all sleepers.
};

const char* bell_name(Bell bell) noexcept;

/// How a reference rings and stores. The better pair depends on the machine: it is measured.
struct ReferenceChoice {
  Bell bell = Bell::each;
  base::StoreKind stores = base::StoreKind::ordinary;

  friend bool operator==(const ReferenceChoice&, const ReferenceChoice&) = default;
};

/// The loop. Owns its threads and its memory, all given back by the destructor. One thread calls.
class Reference {
 public:
  /// Starts one thread a rank, with the job's tensors in memory of its own, aligned to 256 bytes.
  /// Ranks run `kernel`; null: they read their descriptors and run nothing. Throws `Error`:
  /// `out_of_memory`; `task_failed` with the text of a kernel that refuses to be prepared.
  Reference(const Job& job, const rankcast_kernel* kernel, base::SpinPolicy spin);
  ~Reference();
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// Rings and stores like this from the next round on. Another bell restarts the threads.
  void use(ReferenceChoice choice);
  ReferenceChoice choice() const { return choice_; }

  /// One timed round. The first round of all always repacks. Throws `Error`: `task_failed` with the
  /// text of a kernel that failed, `deadline_exceeded` when the ranks have not finished within
  /// `limit`.
  const RoundTimes& round(Packing packing,
                          std::chrono::nanoseconds limit = std::chrono::minutes(1));

  /// The memory of one tensor on one rank, for preparation and verification between rounds.
  std::span<std::byte> tensor(int rank, std::size_t index);

 private:
  // A row of the table that handles are checked against, and, copied whole, the wire form of a
  // tensor: a copy from memory that nobody has just written is the cheapest there is.
  struct alignas(64) Slot {
    std::uint32_t generation = 0;
    std::uint32_t layout = 0;  // row of layouts_
    std::uint64_t id = 0;
    std::uint64_t offset = 0;  // in the rank's memory
    std::uint64_t bytes = 0;
    DLDataType dtype{};
    std::array<std::uint32_t, 7> rest{};
  };
  static_assert(sizeof(Slot) == 64);

  struct Handle {
    std::uint32_t slot;
    std::uint32_t generation;
  };

  struct Layout {
    std::array<std::int64_t, kMaxDims> shape{};
    std::array<std::int64_t, kMaxDims> strides{};
    std::int32_t dims = 0;
  };

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <class T>
  using Memory = std::unique_ptr<T, Free>;

  struct alignas(base::kCacheLine) Lane {
    // Written by the host, read by the rank; ordered by itself (label reference-bell).
    std::atomic<std::uint32_t> bell{0};
    // Written by the rank, read by the host; ordered by seq_cst in the race of Reference::ring.
    alignas(base::kCacheLine) std::atomic<std::uint32_t> asleep{0};
    std::int64_t entry_ns = 0;  // written by the rank, read by the host after the round
    int status = RANKCAST_OK;   // the same
    rankcast_failure failure{};
    // Set up by the host before the thread starts; then the rank's own.
    alignas(base::kCacheLine) Memory<Slot> frame;
    Memory<std::byte> memory;
    std::uint64_t memory_bytes = 0;
    std::vector<std::uint64_t> offsets;  // by tensor
    std::thread thread;
  };

  void lay_out(const Job& job);
  void start();
  void stop() noexcept;
  bool pack(std::size_t rank, bool write) noexcept;
  void ring(std::uint32_t round) noexcept;
  bool wait_done(std::uint32_t round, std::int64_t limit_ns) noexcept;
  void wait_bell(Lane& lane, Bell bell, std::uint32_t round) noexcept;
  void run_rank(int rank, Bell bell, std::uint32_t first_round, std::latch& ready) noexcept;
  void take_report(std::int64_t begin_ns, std::int64_t submitted_ns, std::int64_t done_ns);

  const rankcast_kernel*
      kernel_;  // borrowed from the caller's library, outlived because it says so
  base::SpinPolicy spin_;
  ReferenceChoice choice_;
  std::size_t args_ = 0;
  std::uint32_t round_ = 0;
  bool packed_ = false;
  RoundTimes times_;

  std::vector<Slot> slots_;
  std::vector<Handle> handles_;  // rank by rank
  std::vector<Layout> layouts_;  // by tensor
  std::vector<std::uint8_t> tags_;
  std::vector<std::unique_ptr<Lane>> lanes_;

  // Written by the host, read by all ranks; ordered by itself (label reference-bell).
  alignas(base::kCacheLine) std::atomic<std::uint32_t> bell_for_all_{0};
  // Written by ranks around their sleep, read by the host; ordered by seq_cst in the race of
  // Reference::ring.
  alignas(base::kCacheLine) std::atomic<std::uint32_t> ranks_asleep_{0};
  // Written by the host before a ring and by ranks, read by ranks; ordered by the bell and by
  // itself (label reference-done).
  alignas(base::kCacheLine) std::atomic<std::uint32_t> left_{0};
  // Written by the last rank of a round, read by the host; ordered by itself (label
  // reference-done).
  alignas(base::kCacheLine) std::atomic<std::uint32_t> done_{0};
  // Written by the host around its sleep, read by the last rank; ordered by seq_cst in the race of
  // Reference::wait_done.
  alignas(base::kCacheLine) std::atomic<std::uint32_t> host_asleep_{0};
  // Written by the host before it rings for the last time, read by ranks; ordered by the bell.
  std::atomic<std::uint32_t> stop_{0};
};

}  // namespace rankcast::bench
