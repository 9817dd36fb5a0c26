// What TaskArgs keeps its arguments in.
#pragma once

#include "base/scratch.h"
#include "frame/records.h"
#include "rankcast/program.h"

namespace rankcast::detail {

/// Lent to one TaskArgs at a time and kept by the thread in between, so that its memory is used
/// again.
struct TaskArgsStorage {
  base::Scratch<TaskArgument> arguments;
  base::Scratch<DeviceTensor> tensors;  // that the program holds itself
  base::Scratch<frame::ScalarRecord> scalars;
};

}  // namespace rankcast::detail
