// The ranks of a reference: threads of this process, or processes.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "bench/lib/reference_memory.h"
#include "rankcast/kernel_abi.h"

namespace rankcast::bench {

/// Who runs run_reference_rank, once for each rank. Owns the memory that they share with the host.
/// One thread calls. The destructor ends what still runs.
class ReferenceRanks {
 public:
  virtual ~ReferenceRanks() = default;

  /// "thread", "process".
  virtual const char* kind() const = 0;
  /// Zeroed and page-aligned; once. Lives as long as this. Throws `Error(out_of_memory)`.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Starts all ranks of `memory`, which is laid out in what was allocated. Does not wait until
  /// they are ready. Throws `Error` when one cannot be started; `join` is called then too.
  virtual void start(const ReferenceMemory& memory) = 0;
  /// After the memory said stop: waits for all that were started. They can be started again.
  virtual void join() noexcept = 0;
  /// What happened to a rank that ended before it was told to: "rank 3 was killed by signal 9
  /// (Killed)". Some microseconds.
  virtual std::optional<std::string> find_lost() = 0;
};

/// Threads that run `kernel`, which must outlive them; null: nothing.
std::unique_ptr<ReferenceRanks> thread_ranks(const rankcast_kernel* kernel);

/// What a rank in a process of its own needs to know.
struct ReferenceProgram {
  std::string command;  ///< A program whose argument `reference-rank` makes it a rank; empty: this.
  std::string library;  ///< The file of the kernel.
  std::string kernel;   ///< Its name; empty: nothing runs.
};

/// Processes, each in a process group of its own. They end when this process does, however it ends.
std::unique_ptr<ReferenceRanks> process_ranks(ReferenceProgram program);

/// The word by which a command becomes a rank.
inline constexpr const char* kReferenceRankCommand = "reference-rank";

/// What that command runs: a rank of process_ranks, to its end. Throws `Error(invalid_argument)`
/// when it was not started by them.
void run_reference_process();

}  // namespace rankcast::bench
