// The mesh itself: what Mesh and Run are handles of.
//
// Threads. One mutex orders the last check and the publication of a submit, `free`, and the end of
// a run (PROTOCOL, "under the mutex"). It is never held while user code runs or a thread waits.
// Beside it: `lifecycle_` (closers and restarters, one at a time).
//
// Tear-down, in this order: 1. no admission; 2. runs drained; 3. ranks stopped; 4. keeper
// joined; 5. segments gone. The control memory goes with the last handle, since a thread may still
// be looking at a timeline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"
#include "base/mutex.h"
#include "base/status.h"
#include "frame/undefined_list.h"
#include "graph/run_draft.h"
#include "link/link.h"
#include "memory/buffer_table.h"
#include "memory/deferred_free.h"
#include "memory/pins.h"
#include "mesh/group_blocks.h"
#include "mesh/keeper.h"
#include "mesh/link_heap.h"
#include "mesh/lost_ranks.h"
#include "mesh/run_order.h"
#include "mesh/run_table.h"
#include "mesh/store_chooser.h"
#include "mesh/table_changes.h"
#include "mesh/watchdog.h"
#include "program/orchestration.h"
#include "rank/hello.h"
#include "rank/ranks.h"
#include "rankcast/mesh.h"

namespace rankcast::detail {

/// The deadline of a timeout that a user gave: 0 or more seconds, infinity for ever. Throws
/// `invalid_argument` naming it.
base::Deadline checked_deadline(std::chrono::duration<double> timeout, const char* name);

class MeshCore final : public std::enable_shared_from_this<MeshCore> {
 public:
  static std::shared_ptr<MeshCore> open(const MeshOptions& options);
  ~MeshCore();
  MeshCore(const MeshCore&) = delete;
  MeshCore& operator=(const MeshCore&) = delete;

  // ---- What is there (core.cc)
  int world_size() const noexcept { return world_size_; }
  std::vector<RankInfo> ranks() const;
  MeshStats stats() const;
  std::vector<DispatchRecord> last_dispatches(int rank) const;
  void register_kernel(std::string_view name, KernelFunction function);
  std::vector<std::string> kernels() const;
  /// Throws `closed` when nothing may be done any more.
  void check_open() const;

  // ---- Resident memory (residency.cc)
  DeviceTensor alloc(int rank, const Shape& shape, DType dtype);
  StackedDeviceTensor alloc_stacked(const Shape& shape, DType dtype, std::span<const int> ranks);
  void free(const DeviceTensor& tensor);
  void free(const StackedDeviceTensor& tensor);

  // ---- Transfers (transfer.cc)
  void upload(const DeviceTensor& tensor, const HostView& view);
  void upload(const StackedDeviceTensor& tensor, const HostView& view);
  void download(const DeviceTensor& tensor, const MutableHostView& view);
  void download(const StackedDeviceTensor& tensor, const MutableHostView& view);
  /// The same bytes to every shard.
  void upload_replicated(const StackedDeviceTensor& tensor, const HostView& view);

  // ---- Resident views (resident_view.cc)
  ResidentView view(const DeviceTensor& tensor);
  /// One view of the block is gone.
  void unpin(int rank, const memory::Block& block) noexcept;

  // ---- Runs (submit.cc, runs.cc)
  Run submit(const Program& program, std::span<const Argument> arguments);
  bool wait(RunState& state, base::Deadline deadline);
  /// For a call that is a run: waits for its end, throws what it failed with, gives the state back.
  void wait_and_drop(RunState* state);
  bool done(const RunState& state);
  void cancel(const RunState& state);
  RunReport report(const RunState& state);
  void drop(RunState* state) noexcept;
  /// True in a forked child: nothing of the mesh may be touched, least of all its mutex.
  bool is_forked() const noexcept;

  // ---- Kernel libraries (load_kernels.cc)
  void load_kernels(const std::string& path);

  // ---- Rank loss (rank_loss.cc)
  void restart_rank(int rank);

  // ---- End (close.cc)
  CloseReport close(std::chrono::duration<double> budget);
  CloseReport close() { return close(options_.close_timeout); }

 private:
  class CatalogOfRegistry;
  class PlacesOfBuffers;
  class OrchestrationLease;
  class TransferDraftLease;
  enum class Life : std::uint32_t { open, closing, closed };

  /// One tensor of a transfer and the other end that belongs to it: host memory, or staging memory
  /// in a segment of the tensor's rank.
  struct TransferPart {
    Shard shard;
    std::uint64_t offset_bytes = 0;
    const Layout* layout = nullptr;
    void* host = nullptr;
    std::optional<frame::BlockRef> staging = {};
  };
  class Staging;

  /// `watch_ns`: the watchdog's period; 0: off.
  MeshCore(const MeshOptions& options, const mesh::StoreChooser& stores, std::int64_t watch_ns,
           std::shared_ptr<rank::RankEnvironment> environment, std::unique_ptr<link::Link> link);
  base::Status start(base::Deadline deadline);
  void abandon_start();

  base::Result<frame::BlockRef> place_for(const Shard& buffer, int reader);
  base::Result<frame::BlockRef> group_block(std::uint64_t prepare_id, int members);
  base::Result<base::TableKey> allocate_locked(int rank, std::uint64_t bytes) RC_REQUIRES(mutex_);
  void free_shards(std::span<const Shard> shards);
  void free_locked(int rank, base::TableKey key) RC_REQUIRES(mutex_);
  void return_memory_locked() RC_REQUIRES(mutex_);
  void give_back_locked(int rank, const memory::Block& block) noexcept RC_REQUIRES(mutex_);
  void wait_for_rank(const DeviceTensor& tensor);
  std::optional<std::uint64_t> find_undefined(const frame::Region& region, int rank);
  void check_mesh(std::uint64_t incarnation, const char* call) const;
  void check_rank(int rank, const char* call) const;
  void check_not_orchestrating(const char* call) const;
  std::vector<int> checked_ranks(std::int64_t shard_count, std::span<const int> ranks,
                                 const char* call) const;

  void transfer(frame::TaskKind kind, std::span<const TransferPart> parts);
  void run_transfer(frame::TaskKind kind, std::span<const TransferPart> parts);
  void transfer_staged(frame::TaskKind kind, std::span<const TransferPart> parts);
  void transfer_stack(frame::TaskKind kind, const StackedData& data, void* host,
                      std::uint64_t stride_bytes);

  RunState* reserve(const graph::RunDraft& draft, std::int64_t begin_ns);
  void write_frames(const graph::RunDraft& draft, RunState& state) noexcept;
  /// `recheck()` looks at the draft's handles again, under the mutex; `count(counters_)` counts
  /// what was published.
  void publish(const graph::RunDraft& draft, RunState& state, std::uint64_t epoch,
               base::FunctionRef<base::Status()> recheck,
               base::FunctionRef<void(MeshStats&)> count);
  base::Status check_lost_locked(const graph::RunDraft& draft) const RC_REQUIRES(mutex_);
  base::Status publish_locked(const graph::RunDraft& draft, RunState& state) RC_REQUIRES(mutex_);
  bool ended(const RunState& state) const noexcept;
  std::size_t finish_ended_locked() RC_REQUIRES(mutex_);
  void finish_locked(RunState& state) RC_REQUIRES(mutex_);
  void finish_if_ended(const RunState& state);
  [[noreturn]] void fail_wait(RunState& state);
  void load_on_ranks(const rank::LibraryPlace& place);
  void take_lost_ranks();
  void lose_rank(int rank, std::string end);
  void forget_memory_of(int rank);
  void bump_epoch_locked() RC_REQUIRES(mutex_);
  bool keep_house();
  base::Deadline watch();
  std::vector<mesh::RankProgress> progress_locked() RC_REQUIRES(mutex_);
  std::vector<std::string> describe_standstill_locked(std::int64_t still_ns, std::int64_t now_ns)
      RC_REQUIRES(mutex_);
  std::string describe_rank_behind_locked(int rank, std::int64_t now_ns) RC_REQUIRES(mutex_);
  std::string describe_task(const RunState& state, const RunLane& lane,
                            std::uint32_t ordinal) const;
  std::string_view name_of(const frame::TaskRecord& task) const;
  void ask_keeper();

  void drain(base::Deadline deadline);
  std::string describe_lane(const RunState& state, const RunLane& lane);
  void note_leaks_locked(CloseReport* report) RC_REQUIRES(mutex_);
  void tell_ranks_to_stop();
  void stop_ranks(base::Deadline deadline);

  const MeshOptions options_;
  const int world_size_;
  const std::uint64_t incarnation_;
  const std::uint64_t process_;  // the process that opened it: a forked child finds it closed
  std::shared_ptr<rank::RankEnvironment> environment_;  // shared with the threads of ranks
  std::unique_ptr<link::Link> link_;
  std::unique_ptr<program::KernelCatalog> catalog_;
  std::unique_ptr<program::BufferPlaces> places_;
  program::MeshView view_;

  std::timed_mutex lifecycle_;  // held by a closer, restarter or loader, who may take mutex_ inside
  mutable base::Mutex mutex_;
  // Written by: close, under the mutex. Read by: any thread. Ordered by: mesh_life.
  std::atomic<Life> life_{Life::open};
  // Grows whenever a handle that was live may no longer be (P1). Written by: free, and when a rank
  // is lost or restarted, under the mutex.
  // Read by: submits, before they check handles and again before they publish. Ordered by:
  // mesh_epoch and, for the deciding comparison, the mutex.
  std::atomic<std::uint64_t> epoch_{1};

  std::vector<std::unique_ptr<memory::BufferTable>> tables_;  // by rank; rows guarded by mutex_
  std::vector<std::unique_ptr<mesh::LinkHeap>> heaps_ RC_GUARDED_BY(mutex_);  // by rank
  std::vector<mesh::TableChanges> pending_changes_
      RC_GUARDED_BY(mutex_);  // by rank, for its next record
  memory::DeferredFrees deferred_ RC_GUARDED_BY(mutex_);
  memory::Pins pins_ RC_GUARDED_BY(mutex_);
  std::unique_ptr<mesh::RunTable> runs_ RC_GUARDED_BY(mutex_);
  std::unique_ptr<mesh::RunOrder> order_ RC_GUARDED_BY(mutex_);
  std::unique_ptr<mesh::GroupBlocks> groups_ RC_GUARDED_BY(mutex_);
  std::uint64_t last_run_ RC_GUARDED_BY(mutex_) = 0;
  bool told_to_stop_ RC_GUARDED_BY(mutex_) = false;
  mesh::LostRanks lost_ RC_GUARDED_BY(mutex_);
  mesh::StoreChooser stores_ RC_GUARDED_BY(mutex_);
  mesh::Watchdog watchdog_ RC_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<OrchestratorImpl>> orchestrations_
      RC_GUARDED_BY(mutex_);  // that no submit uses
  std::vector<std::unique_ptr<graph::RunDraft>> transfer_drafts_ RC_GUARDED_BY(mutex_);
  base::Scratch<frame::BlockRef> side_blocks_ RC_GUARDED_BY(mutex_);  // of the publication at hand
  std::vector<std::string> dropped_errors_ RC_GUARDED_BY(mutex_);  // of dropped runs, to be logged
  MeshStats counters_ RC_GUARDED_BY(mutex_);
  // Written by: publications after they left the mutex. Read by: stats. Ordered by: nothing, a
  // counter for people.
  std::atomic<std::uint64_t> wakes_{0};

  std::unique_ptr<mesh::Keeper> keeper_;
};

/// Gives a handle's share of the core up without ending anything: for a forked child, whose copy of
/// the core has no threads behind it.
void leak(std::shared_ptr<MeshCore> core) noexcept;

}  // namespace rankcast::detail
