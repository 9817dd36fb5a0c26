// From a program and its arguments to a run draft: every task checked, every descriptor encoded,
// the order of tasks worked out.
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
#include "graph/heap_layout.h"
#include "graph/run_draft.h"
#include "graph/task_order.h"
#include "program/argument_table.h"
#include "program/kernel_checks.h"
#include "program/layout_table.h"
#include "program/reference_views.h"
#include "program/task_args.h"
#include "program/task_encoder.h"
#include "program/task_memory.h"
#include "rankcast/program.h"

namespace rankcast::detail {

class OrchestratorImpl {
 public:
  explicit OrchestratorImpl(const program::MeshView& mesh);
  OrchestratorImpl(const OrchestratorImpl&) = delete;  // its parts refer to each other
  OrchestratorImpl& operator=(const OrchestratorImpl&) = delete;

  /// Runs the program's function over `arguments`. Afterwards the draft holds the run. Throws what
  /// the function throws, or the first failure of a task, also when the function swallowed it.
  ///
  /// `epoch` is the mesh's, read before the call. A task that repeats the last run's of the same
  /// number is taken over: as it stands while all of its tensors are the same and the epoch is, at
  /// which their handles were checked (P1); with its handles checked again when it is not; with
  /// other tensors of the same layout in their places, which are checked; with other scalars, which
  /// the kernel's check sees. The order of tasks is taken over while every task is, and the tensors
  /// share buffers as they did.
  void run(const Program& program, std::span<const Argument> arguments, std::uint64_t epoch);

  /// One task: called by Orchestrator::submit.
  Task submit_task(std::string_view kernel, int rank, const TaskArgs& arguments);
  /// The same, called by Orchestrator::copy.
  Task submit_copy(const TaskArgs& arguments);
  /// Memory of the run, called by Orchestrator::temp.
  ArgumentRef add_temporary(int rank, const Shape& shape, DType dtype);
  /// Tasks that start together, called by Orchestrator::submit_group.
  TaskGroup submit_group(std::string_view kernel, std::span<const int> ranks,
                         std::span<const TaskArgs> arguments);

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
  bool repeats(std::string_view kernel, int rank, std::size_t members,
               const TaskArgs& arguments) const noexcept;
  bool group_repeats(std::string_view kernel, std::span<const int> ranks,
                     std::span<const TaskArgs> arguments);
  base::Status check_members(std::string_view kernel, std::span<const int> ranks,
                             std::size_t arguments) const;
  base::Status make_group(std::span<const int> ranks);
  bool renew(const TaskArgs& arguments);
  bool renew_scalars(const TaskArgs& arguments);
  void end_repetition();
  const program::NamedKernel& find_kernel(std::string_view name, int rank);
  base::Status check_submit(std::string_view kernel, int rank, const TaskArgs& arguments) const;
  base::Status check_afters(std::string_view kernel, int rank, const TaskArgs& arguments) const;
  base::Status add_launch(std::string_view kernel, int rank, const TaskArgs& arguments);
  [[noreturn]] void refuse(base::Status status);
  Task added(base::Status status, std::size_t kernel, int rank, std::size_t members,
             const TaskArgs& arguments);
  void order_tasks();
  void lay_out_heap();
  std::string place_of(std::uint32_t task, std::uint32_t argument) const;
  std::string_view kernel_name(std::uint32_t id) const;

  const program::MeshView& mesh_;  // borrowed from the mesh, which owns this
  graph::RunDraft draft_;
  graph::HeapLayout heap_;
  graph::TaskOrder order_;
  program::LayoutTable layouts_;
  program::ArgumentTable arguments_;
  program::ReferenceViews views_;  // that the function has made of its arguments
  TaskEncoder encoder_;
  program::KernelChecks checks_;
  std::vector<program::NamedKernel> kernels_;  // found so far, the copy first
  std::size_t last_kernel_ = 0;
  program::TaskMemory tasks_;      // of the draft
  std::size_t layouts_anew_ = 0;   // layouts of the last run that repeated nothing
  std::uint64_t epoch_ = 0;        // at which the draft's handles were checked
  std::uint32_t temporaries_ = 0;  // of the run at hand
  std::uint32_t repeated_ = 0;     // tasks of the run at hand that repeat the last run's
  bool remembered_ = false;        // the draft is that of a whole run
  bool repeating_ = false;         // every task so far has repeated the last run's
  bool ordered_ = false;           // the draft's order is that of its tasks
  bool moved_ = false;             // tasks of the run at hand have other tensors in their places
  bool epoch_moved_ = false;       // handles of the last run are to be checked again
  bool look_again_ = false;        // that, or some argument is another tensor
  base::Scratch<std::uint32_t> signature_;  // of the task at hand
  base::Status first_failure_;
  std::uint64_t table_visits_ = 0;
  std::uint64_t submit_ = 0;  // of the run at hand
  std::uint64_t descriptors_built_ = 0;
  std::string program_name_;
};

}  // namespace rankcast::detail
