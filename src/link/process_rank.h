// The rank's end of the link `process`: what the program `rankcast-rank` runs.
#pragma once

#include <functional>
#include <string_view>

#include "link/rank_port.h"

namespace rankcast::link {

/// What a rank does, given the host's own words (RankStart::hello): reports, then takes records
/// until it is told to stop. Must not throw.
using ProcessRankMain = std::function<void(std::string_view hello, RankPort& port)>;

/// Serves the host at the other end of `socket` until its main function returns; returns the
/// process's exit status: 0, or 2 after a line on stderr when what came is no host of this build. A
/// thread of its own watches the host: when that dies, the process ends at once with status 3.
int run_process_rank(int socket, const ProcessRankMain& rank_main);

}  // namespace rankcast::link
