// `rankcast bench dispatch`.
#pragma once

#include <string>

#include "bench/lib/dispatch.h"

namespace rankcast::tools {

struct BenchDispatch {
  bench::DispatchOptions options;
  std::string json;     ///< A path, "-" for standard output, empty for none.
  std::string command;  ///< What was typed; shown in the table.
};

/// Runs the benchmark and prints its table, on stdout, or on stderr when JSON goes to stdout.
/// Returns the exit code; throws what the benchmark throws, and `Interrupted` after Ctrl-C.
int run_bench_dispatch(const BenchDispatch& command);

}  // namespace rankcast::tools
