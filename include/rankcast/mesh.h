// What a user opens: ranks, their memory, and the door through which programs go.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rankcast/api.h"
#include "rankcast/dtype.h"
#include "rankcast/host_view.h"
#include "rankcast/kernel_abi.h"
#include "rankcast/program.h"
#include "rankcast/resident_view.h"
#include "rankcast/run.h"
#include "rankcast/shape.h"
#include "rankcast/tensor.h"

namespace rankcast {

/// How to open a mesh. Every member has a default.
struct MeshOptions {
  /// One device a rank, in rank order: `cpu:0-7`, `0,1,2`, `null:0-3?delay_us=50`, kinds may mix
  /// (docs/options.md).
  std::string devices = "cpu:0";
  /// How the host reaches the ranks. "thread": threads of this process. "process": processes that
  /// may die alone, and be restarted.
  std::string link = "thread";
  /// Link "process": the program that the ranks run. Empty: what the environment variable
  /// RANKCAST_RANK_BINARY names, else `rankcast-rank` where it was installed with this library.
  std::string rank_binary = {};
  /// Runs in flight at once; then `submit` waits. 1 to 1,024.
  int max_in_flight = 8;
  /// Memory that each member of a group may share with its peers
  /// (`rankcast_preparation::shared_bytes`). 64 to 1,073,741,824 bytes; what is not touched costs
  /// nothing.
  std::uint64_t group_shared_bytes = 65536;
  /// How long `open` may take.
  std::chrono::duration<double> startup_timeout{30};
  /// How long `close` waits for runs in flight.
  std::chrono::duration<double> close_timeout{30};
  /// How long an idle rank or a waiting host thread looks before it sleeps.
  std::chrono::duration<double, std::micro> spin{100};
  /// Runs in flight of which nothing moves for this long are told in the log, once until something
  /// moves: what each rank is at, and its last dispatches. 0: what the environment variable
  /// RANKCAST_WATCHDOG_MS says, else never. At most a day.
  std::chrono::duration<double> watchdog{0};
};

/// One rank of an open mesh.
struct RankInfo {
  int rank = 0;
  std::string device;                ///< "cpu:3"
  std::string description;           ///< for people
  std::uint64_t memory_bytes = 0;    ///< live bytes of its buffers
  std::uint64_t reserved_bytes = 0;  ///< address space that its tensors' segments hold
  int process = 0;                   ///< id of the process that it runs in
  bool lost = false;                 ///< it died and was not restarted
};

/// One dispatch that a rank took.
struct DispatchRecord {
  std::uint64_t dispatch_id = 0;
  std::uint32_t tasks = 0;     ///< Of this rank.
  bool loads_kernels = false;  ///< It is a `load_kernels`, which has no tasks.
  bool done = false;           ///< False: the rank is at it, or died at it.
  bool good = false;           ///< Once done: nothing of it failed there.
  std::int64_t entry_ns = 0;   ///< CLOCK_MONOTONIC.
  std::int64_t exit_ns = 0;    ///< Once done.
};

/// Counters since the mesh was opened, and its memory now.
struct MeshStats {
  std::uint64_t submits = 0;            ///< Runs published for programs.
  std::uint64_t transfers = 0;          ///< Runs published for uploads and downloads.
  std::uint64_t descriptors_built = 0;  ///< Descriptors encoded; repeated ones are kept.
  std::uint64_t table_visits = 0;       ///< Buffer table rows looked at by submits.
  std::uint64_t bytes_written = 0;      ///< Bytes of frames and records written.
  std::uint64_t arena_growths = 0;      ///< Times a submit had to allocate memory.
  std::uint64_t wakes = 0;              ///< Wake-up system calls of publications.
  std::uint64_t live_buffers = 0;
  std::uint64_t live_bytes = 0;      ///< As asked for, not yet freed.
  std::uint64_t deferred_bytes = 0;  ///< Freed, waiting until no rank can use them.
  std::uint64_t pinned_bytes = 0;  ///< Of buffers that resident views show, freed ones among them.
  std::uint64_t reserved_bytes = 0;  ///< Address space that the segments of tensors hold.
  std::uint64_t runs_in_flight = 0;
};

/// A buffer that was never freed. Slot and generation are what errors name it by.
struct LeakedBuffer {
  int rank = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint64_t bytes = 0;
};

/// What `close` found.
struct CloseReport {
  std::uint64_t drained_runs = 0;    ///< Runs that were in flight and finished.
  std::uint64_t leaked_buffers = 0;  ///< Buffers that were never freed; their memory is back now.
  std::uint64_t leaked_bytes = 0;
  std::vector<LeakedBuffer> largest_leaks = {};  ///< Up to eight of them, the largest first.
  /// For people: how many and how much on which ranks, the largest, and what to do; empty when
  /// nothing leaked.
  std::string leak_message = {};
};

/// What a kernel function registered in this process is given. Valid during the call.
struct KernelCall {
  const rankcast_kernel_context& context;
  std::span<const DLTensor> tensors;
  std::span<const rankcast_scalar> scalars;
};

/// Fails its task by throwing; the task's error carries what(). The threads of several ranks may
/// call it at once.
using KernelFunction = std::function<void(const KernelCall&)>;

/// N ranks over one link. Owns the resident memory and submits runs. All functions are thread-safe;
/// a Mesh is movable (not while another thread uses it). The destructor closes with the default
/// budget and logs what `close` would throw.
///
/// Every function throws `Error(closed)` after `close`, but `close` itself, which then returns an
/// empty report.
class RANKCAST_API Mesh {
 public:
  /// Opens all ranks within `startup_timeout`, or throws and leaves nothing behind.
  /// `invalid_argument`: the device string (with the place of the fault), an unknown device kind or
  /// link, or a limit; `deadline_exceeded`: names the rank that did not report; `out_of_memory`;
  /// `unsupported`.
  static Mesh open(const MeshOptions& options = {});

  ~Mesh();
  Mesh(Mesh&& other) noexcept;
  Mesh& operator=(Mesh&& other) noexcept;
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int world_size() const;
  std::vector<RankInfo> ranks() const;
  MeshStats stats() const;
  /// The last dispatches that `rank` took, transfers and loads of kernels among them, the newest
  /// first: up to 256, also of a rank that is lost. Looks at memory that the rank writes; costs it
  /// nothing.
  std::vector<DispatchRecord> last_dispatches(int rank) const;

  /// A tensor on `rank`; its contents are unspecified. Throws `out_of_memory` naming the bytes, and
  /// then nothing has changed. Memory is aligned to 256 bytes.
  DeviceTensor alloc(int rank, const Shape& shape, DType dtype);
  /// The same, filled from `view`.
  DeviceTensor alloc(int rank, const HostView& view);

  /// `shape` is `[B, tail...]`: shard i goes to `ranks[i]`, by default to rank i. At least two
  /// dimensions; B ranks, all distinct. Everything is checked before anything is allocated; a
  /// failure half way gives all of it back.
  StackedDeviceTensor alloc_stacked(const Shape& shape, DType dtype,
                                    std::span<const int> ranks = {});
  /// The same, filled from `view`; the shards are uploaded concurrently.
  StackedDeviceTensor alloc_stacked(const HostView& view, std::span<const int> ranks = {});
  /// One whole copy of `view` on each of `ranks` (by default on all): a stacked tensor of shape
  /// `[B, view.shape...]`. `view` may have up to seven dimensions.
  StackedDeviceTensor alloc_replicated(const HostView& view, std::span<const int> ranks = {});

  /// Copies the host's bytes into the tensor, after all work submitted earlier to its rank; returns
  /// when they are there. dtype and shape must be equal. Of a view only the elements are touched.
  void upload(const DeviceTensor& tensor, const HostView& view);
  void upload(const StackedDeviceTensor& tensor, const HostView& view);
  /// Copies the tensor's bytes to the host, after all work submitted earlier to its rank.
  void download(const DeviceTensor& tensor, const MutableHostView& view);
  void download(const StackedDeviceTensor& tensor, const MutableHostView& view);

  /// The tensor's own memory, for the host to read without a copy: as it is after all work
  /// submitted earlier to its rank. Counts as a download. Throws as `download` does, and
  /// `undefined_contents` as a task that reads the tensor.
  ResidentView view(const DeviceTensor& tensor);

  /// Makes every copy of the handle stale, at once. The memory goes back when all work that was
  /// published before has passed. Freeing the same tensor again does nothing. Never blocks. A
  /// single shard of a stack is freed with the stack, a view with the tensor it is of:
  /// `invalid_argument`.
  void free(const DeviceTensor& tensor);
  void free(const StackedDeviceTensor& tensor);

  /// Adds the kernels of a shared library on every rank (rankcast/kernel_abi.h). Throws
  /// `invalid_argument` naming the file for one that is missing, exports no table, has another ABI
  /// version, or a kernel name that is taken. Where ranks are processes, each loads the same file,
  /// known by its SHA-256 digest, before this returns; where one cannot, throws what it says, with
  /// the rank, or `rank_lost`, and no kernel of the library is there.
  void load_kernels(const std::string& path);
  /// Adds a function of this process as a kernel; thread link only, `unsupported` elsewhere.
  void register_kernel(std::string_view name, KernelFunction function);
  /// The names of all kernels, sorted.
  std::vector<std::string> kernels() const;

  /// Runs the program's orchestration function in this thread, checks every task, packs, and
  /// publishes to all ranks at once; returns without waiting for them. Either every rank gets its
  /// part or the call throws and no rank starts anything (see `Orchestrator::submit`). An exception
  /// of the function passes through. Waits while `max_in_flight` runs are in flight. A program that
  /// submits no task gives a run that is done. Called inside an orchestration function:
  /// `invalid_argument`.
  Run submit(const Program& program, std::span<const Argument> arguments);
  Run submit(const Program& program, std::initializer_list<Argument> arguments) {
    return submit(program, std::span<const Argument>(arguments.begin(), arguments.size()));
  }

  /// Puts a new rank in the place of one that died (`rank_lost`), or of one that still lives and is
  /// killed first: runs that it has part in then fail with `rank_lost`. The new rank has the old
  /// one's device and kernels and no tensors: those of the old one are stale. Returns when it is
  /// ready. Throws `unsupported` on link "thread"; what kept the new one from starting, and
  /// `deadline_exceeded` when that took longer than `startup_timeout`: the rank is then lost, and
  /// may be restarted again.
  void restart_rank(int rank);

  /// Stops admission, waits for runs in flight within the budget, stops the ranks, returns all
  /// memory and reports what leaked. Throws `deadline_exceeded` naming what still runs; it may then
  /// be called again. A second call returns an empty report.
  CloseReport close();
  CloseReport close(std::chrono::duration<double> budget);

 private:
  explicit Mesh(std::shared_ptr<detail::MeshCore> core) noexcept;
  detail::MeshCore& core() const;

  std::shared_ptr<detail::MeshCore> core_;  // shared with runs that are still held
};

}  // namespace rankcast
