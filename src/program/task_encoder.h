// From the arguments of a task to descriptors in a run's draft.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/rank_set.h"
#include "base/scratch.h"
#include "base/status.h"
#include "graph/run_draft.h"
#include "memory/buffer_table.h"
#include "program/argument_table.h"
#include "program/buffer_places.h"
#include "program/kernel_catalog.h"
#include "program/layout_table.h"
#include "program/reference_views.h"
#include "program/task_args.h"
#include "rankcast/program.h"

namespace rankcast::program {

/// What an orchestration sees of its mesh.
struct MeshView {
  std::uint64_t incarnation = 0;
  int world_size = 0;
  std::vector<const memory::BufferTable*> tables;  // by rank; live as long as the mesh
  KernelCatalog* catalog = nullptr;                // likewise
  BufferPlaces* places = nullptr;                  // likewise
  base::RankSet idle = {};                         // ranks whose devices compute nothing
};

}  // namespace rankcast::program

namespace rankcast::detail {

/// Used by one thread at a time. Everything is borrowed from the orchestration that owns this.
/// Failures name the argument, the task, its kernel and the rank.
class TaskEncoder {
 public:
  TaskEncoder(const program::MeshView& mesh, graph::RunDraft& draft, program::LayoutTable& layouts,
              program::ArgumentTable& arguments, program::ReferenceViews& views) noexcept
      : mesh_(mesh), draft_(draft), layouts_(layouts), arguments_(arguments), views_(views) {}

  /// Pushes the descriptors of the draft's next task, a launch on `rank`; `signature` gets one word
  /// an argument: (layout id << 3) | tag. What fails leaves the descriptors pushed so far.
  base::Status encode(std::string_view kernel, int rank, const TaskArgs& arguments,
                      base::Scratch<std::uint32_t>* signature);

  /// The rank that holds the destination of a copy, which is to be task number `task`.
  /// `invalid_argument` for arguments that are no copy's.
  base::Result<int> rank_of_copy(std::uint32_t task, const TaskArgs& arguments);
  /// Adds the task of a copy, run by `rank`.
  base::Status add_copy(int rank, const TaskArgs& arguments);

  /// Brings the descriptors of a launch that repeats up to date, and counts in `replaced` those
  /// that it turned. False when that cannot be: the task is then encoded anew, and why it may not
  /// run is said there. `recheck`: every handle is looked up again.
  bool renew(std::uint32_t task, const TaskArgs& arguments, bool recheck,
             std::uint64_t* replaced) const;
  /// True if a copy that repeats stands as it is.
  bool copy_stands(std::uint32_t task, const TaskArgs& arguments, bool recheck);

  /// Again, under the mesh's mutex: the first argument whose buffer is no longer live. `name_of`
  /// gives a kernel's name by its id.
  base::Status recheck(base::FunctionRef<std::string_view(std::uint32_t)> name_of) const;

  /// "argument 2 (argument 0 of the submit) of task 5 ('k') on rank 3".
  std::string place_of(std::size_t argument, std::uint32_t task, std::string_view kernel, int rank,
                       std::uint32_t submit_argument) const;

 private:
  /// A tensor that an argument of a task stands for.
  struct Located {
    Shard shard;
    std::uint64_t offset = 0;
    program::LayoutTable::Numbers layout;
    std::uint32_t argument = frame::kNone;  // of the submit
  };

  base::Result<Located> locate(const TaskArgument& argument, const TaskArgs& arguments);
  base::Status check_live(const Shard& shard) const;
  base::Status encode_one(const TaskArgument& argument, const TaskArgs& arguments, int rank,
                          frame::ArgumentRecord* record, std::uint32_t* signature);
  bool replace_one(const TaskArgument& argument, const TaskArgs& arguments, int rank,
                   frame::ArgumentRecord* record, std::uint64_t* replaced) const;

  const program::MeshView& mesh_;
  graph::RunDraft& draft_;
  program::LayoutTable& layouts_;
  program::ArgumentTable& arguments_;
  program::ReferenceViews& views_;
};

}  // namespace rankcast::detail
