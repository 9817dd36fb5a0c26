// What a benchmark says: a table for people, JSON for programs.
#pragma once

#include <string>

#include "bench/lib/dispatch.h"
#include "bench/lib/machine.h"

namespace rankcast::bench {

/// The table, several lines, the last one ended. `command` is what to type to have it again.
std::string dispatch_table(const DispatchResult& result, const Machine& machine, const Build& build,
                           const std::string& command);

/// One JSON object, indented, ended by a newline. Schema "rankcast.bench.dispatch/1": keys are only
/// added to a version. Times are microseconds; `verified` is null when no rank of the mesh runs
/// kernels; `live_buffers` and `ratio.live_buffers_submit` are there with --live-buffers only. With
/// several links `links` has the keys of each mesh under the link's name, `verified` and
/// `dispatches` count for all, and the other figures beside it are those of the first link;
/// `ratio.process_over_thread` is there when both of these take part.
std::string dispatch_json(const DispatchResult& result, const Machine& machine, const Build& build);

/// "mesh, round 7: rank 3, output, element 5: found 12, expected 13 (1 wrong round of 240)".
std::string wrong_result_text(const DispatchResult& result);

}  // namespace rankcast::bench
