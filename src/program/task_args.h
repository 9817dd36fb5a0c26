// What TaskArgs keeps its arguments in.
#pragma once

#include <cstdint>

#include "base/scratch.h"
#include "frame/records.h"
#include "program/reference_views.h"
#include "rankcast/program.h"

namespace rankcast::detail {

/// The number of the submit whose orchestration function this thread runs; 0 outside of one. No two
/// submits of the process have the same.
inline thread_local std::uint64_t current_submit = 0;

/// Where that submit keeps views of its arguments; null outside of one.
inline thread_local program::ReferenceViews* current_views = nullptr;

/// What is said of a temporary outside of its orchestration function.
inline constexpr const char* kStaleTemporary =
    "a temporary of another run, which has no memory any more; make it by Orchestrator::temp in "
    "the orchestration function that uses it, or pass a tensor that Mesh::alloc gave";

/// Lent to one TaskArgs at a time and kept by the thread in between, so that its memory is used
/// again.
struct TaskArgsStorage {
  base::Scratch<TaskArgument> arguments;
  base::Scratch<DeviceTensor> tensors;  // that the program holds itself
  base::Scratch<frame::ScalarRecord> scalars;
  base::Scratch<std::uint32_t> afters;  // numbers of tasks, or kStrange
};

}  // namespace rankcast::detail
