// What the benchmark of one dispatch is asked to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/lib/product.h"

namespace rankcast::bench {

struct DispatchOptions {
  std::string devices = "cpu:0-7";
  int rounds = 200;       ///< Timed rounds of each side.
  int tensor_args = 142;  ///< Tensors a rank, the output among them. Not with `safetensors`.
  std::string mode = "orchestrated";
  std::string link = "thread";  ///< One, or several with commas between: a mesh takes part on each.
  /// Buffers alive on each mesh. Then a second mesh, with the job's own buffers alone, takes part.
  std::optional<std::uint64_t> live_buffers;
  std::int64_t gap_us = 0;          ///< Idle before each round.
  std::string between = "nothing";  ///< Two rounds of the mesh: a `Between`, by name.
  std::string safetensors;          ///< A file whose tensors are the arguments; empty: the sum job.
  std::chrono::nanoseconds limit = std::chrono::minutes(1);  ///< Of one round.
  std::optional<KernelOverride> kernel;                      ///< What the mesh runs instead.
  /// The program that is a process rank of the reference; see ReferenceProgram::command.
  std::string reference_command;
};

/// Throws `Error(invalid_argument)` naming the option, its value and what is accepted.
void check_options(const DispatchOptions& options);

/// The links of `options.link` in its order. Throws `Error(invalid_argument)` for one that is
/// unknown, that comes twice, or that has no name.
std::vector<std::string> links_of(const DispatchOptions& options);

/// What `options.between` names; the options have been checked.
Between between_of(const DispatchOptions& options);

}  // namespace rankcast::bench
