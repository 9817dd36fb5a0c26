// The in-run reference: what a mesh is measured against.
//
// A bare loop over ranks, threads or processes as the mesh's are: a table of slots with
// generations, one frame and one doorbell a rank. A round checks a generation-checked handle for
// every tensor of every rank, packs all frames, rings, and waits until the last rank has counted
// down. A rank stamps its entry, decodes its descriptors into tensors with resolved pointers, and
// runs the job's kernel once. Nothing else: no errors of a user, no second run in flight, no order
// between runs, no frees.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/spin.h"
#include "base/stream_store.h"
#include "bench/lib/job.h"
#include "bench/lib/reference_memory.h"
#include "bench/lib/reference_ranks.h"
#include "bench/lib/side.h"

namespace rankcast::bench {

/// What a submit does to the frames.
enum class Packing {
  repacked,  ///< Checks all handles and writes every descriptor.
  reused,    ///< Checks all handles; the frames stay as they are.
};

const char* bell_name(Bell bell) noexcept;

/// How a reference rings and stores. The better pair depends on the machine: it is measured.
struct ReferenceChoice {
  Bell bell = Bell::each;
  base::StoreKind stores = base::StoreKind::ordinary;

  friend bool operator==(const ReferenceChoice&, const ReferenceChoice&) = default;
};

/// The loop. Owns its ranks and their memory, all given back by the destructor. One thread calls.
class Reference {
 public:
  /// Starts the ranks, with the job's tensors in their memory, aligned to 256 bytes. Throws
  /// `Error`: `out_of_memory`; `task_failed` with the text of a rank whose kernel cannot be loaded
  /// or prepared; `rank_lost` for a process that ends; `deadline_exceeded`.
  Reference(const Job& job, std::unique_ptr<ReferenceRanks> ranks, base::SpinPolicy spin);
  ~Reference();
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// Rings and stores like this from the next round on. Another bell restarts the ranks.
  void use(ReferenceChoice choice);
  ReferenceChoice choice() const { return choice_; }
  /// Of its ranks: "thread", "process".
  const char* ranks() const { return ranks_->kind(); }

  /// One timed round. The first round of all always repacks. Throws `Error`: `task_failed` with the
  /// text of a kernel that failed, `deadline_exceeded` when the ranks have not finished within
  /// `limit`, `rank_lost` when one is a process that has ended.
  const RoundTimes& round(Packing packing,
                          std::chrono::nanoseconds limit = std::chrono::minutes(1));

  /// The memory of one tensor on one rank, for preparation and verification between rounds.
  std::span<std::byte> tensor(int rank, std::size_t index);

 private:
  struct Handle {
    std::uint32_t slot;
    std::uint32_t generation;
  };

  void lay_out(const Job& job);
  void start();
  void wait_ready();
  void stop() noexcept;
  bool pack(std::size_t rank, bool write) noexcept;
  void ring(std::uint32_t round) noexcept;
  bool wait_done(std::uint32_t round, std::int64_t limit_ns);
  void throw_if_lost();
  void take_report(std::int64_t begin_ns, std::int64_t submitted_ns, std::int64_t done_ns);

  std::unique_ptr<ReferenceRanks> ranks_;  // and the memory
  ReferenceMemory memory_;
  base::SpinPolicy spin_;
  ReferenceChoice choice_;
  std::size_t args_ = 0;
  std::uint32_t round_ = 0;
  bool packed_ = false;
  RoundTimes times_;

  std::vector<ReferenceSlot> slots_;
  std::vector<Handle> handles_;         // rank by rank
  std::vector<std::uint64_t> offsets_;  // in a rank's memory; as the handles
};

}  // namespace rankcast::bench
