// From a program and its arguments to a run draft: every task checked, every descriptor encoded.
//
// One orchestration serves one submit at a time and is kept between submits: its arenas, layouts
// and passed checks make the next submit of the same program cheap. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch.h"
#include "base/status.h"
#include "graph/run_draft.h"
#include "memory/buffer_table.h"
#include "program/argument_table.h"
#include "program/check_memo.h"
#include "program/kernel_catalog.h"
#include "program/layout_table.h"
#include "program/task_args.h"
#include "program/task_memory.h"
#include "rankcast/program.h"

namespace rankcast::program {

/// What an orchestration sees of its mesh.
struct MeshView {
  std::uint64_t incarnation = 0;
  int world_size = 0;
  std::vector<const memory::BufferTable*> tables;  // by rank; live as long as the mesh
  KernelCatalog* catalog = nullptr;                // likewise
};

}  // namespace rankcast::program

namespace rankcast::detail {

class OrchestratorImpl {
 public:
  explicit OrchestratorImpl(const program::MeshView& mesh);

  /// Runs the program's function over `arguments`. Afterwards the draft holds the run. Throws what
  /// the function throws, or the first failure of a task, also when the function swallowed it.
  ///
  /// `epoch` is the mesh's, read before the call. A task that repeats the last run's of the same
  /// number is taken over: as it stands while all of its tensors are the same and the epoch is, at
  /// which their handles were checked (P1); with its handles checked again when it is not; with
  /// other tensors of the same layout in their places, which are checked; with other scalars, which
  /// the kernel's check sees.
  void run(const Program& program, std::span<const Argument> arguments, std::uint64_t epoch);

  /// One task: called by Orchestrator::submit.
  Task submit_task(std::string_view kernel, int rank, const TaskArgs& arguments);

  /// Again, for the submit that found the epoch moved (P1), under the mesh's mutex: the first
  /// argument whose buffer is no longer live.
  base::Status recheck_locked() const;

  const graph::RunDraft& draft() const noexcept { return draft_; }
  int world_size() const noexcept { return mesh_.world_size; }
  /// Rows of buffer tables that the last run looked at.
  std::uint64_t table_visits() const noexcept { return table_visits_; }
  /// Descriptors that the last run wrote, those it took over not counted.
  std::uint64_t descriptors_built() const noexcept { return descriptors_built_; }
  /// Name of the program that ran last.
  const std::string& program_name() const noexcept { return program_name_; }

 private:
  struct KernelName {
    std::string name;
    program::CatalogEntry entry;
  };

  bool repeats(std::string_view kernel, int rank, const TaskArgs& arguments) const noexcept;
  bool renew(int rank, const TaskArgs& arguments);
  bool renew_tensors(const frame::TaskRecord& task, int rank, const TaskArgs& arguments);
  bool replace_own(const DeviceTensor& tensor, const memory::BufferTable& table, int rank,
                   frame::ArgumentRecord* record, std::uint64_t* replaced) const;
  void forget_tasks_from(std::uint32_t task);
  const KernelName& find_kernel(std::string_view name, int rank);
  base::Status check_submit(const KernelName& kernel, int rank, const TaskArgs& arguments) const;
  base::Status encode_task(const KernelName& kernel, int rank, const TaskArgs& arguments);
  base::Status encode_argument(const TaskArgument& argument, const TaskArgs& arguments,
                               const memory::BufferTable& table, int rank,
                               frame::ArgumentRecord* record, std::uint32_t* signature);
  base::Status check_call(const KernelName& kernel, int rank, const frame::TaskRecord& task,
                          std::uint64_t* prepare_id);
  base::Status ask_kernel(const KernelName& kernel, int rank, const frame::TaskRecord& task);
  base::Status describe_stale(int rank, std::uint32_t slot, std::uint32_t generation) const;
  std::string place_of(std::size_t argument, std::uint32_t task, std::string_view kernel, int rank,
                       std::uint32_t submit_argument) const;
  std::string_view kernel_name(std::uint32_t id) const;

  const program::MeshView& mesh_;  // borrowed from the mesh, which owns this
  graph::RunDraft draft_;
  program::LayoutTable layouts_;
  program::CheckMemo memo_;
  std::vector<KernelName> kernels_;  // found so far
  std::size_t last_kernel_ = 0;
  program::ArgumentTable arguments_;
  program::TaskMemory tasks_;               // of the draft
  std::size_t layouts_anew_ = 0;            // layouts of the last run that repeated nothing
  std::uint64_t epoch_ = 0;                 // at which the draft's handles were checked
  std::uint32_t repeated_ = 0;              // tasks of the run at hand that repeat the last run's
  bool remembered_ = false;                 // the draft is that of a whole run
  bool repeating_ = false;                  // every task so far has repeated the last run's
  bool epoch_moved_ = false;                // handles of the last run are to be checked again
  bool look_again_ = false;                 // that, or some argument is another tensor
  base::Scratch<std::uint32_t> signature_;  // of the task at hand
  base::Scratch<DLTensor> tensors_;         // for a kernel's check
  base::Scratch<std::uint8_t> tags_;
  base::Scratch<rankcast_scalar> scalars_;
  base::Status first_failure_;
  std::uint64_t table_visits_ = 0;
  std::uint64_t submit_ = 0;  // of the run at hand
  std::uint64_t descriptors_built_ = 0;
  std::string program_name_;
};

}  // namespace rankcast::detail
