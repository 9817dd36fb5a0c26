// What a rank in another process is told by its host: a text that the link carries
// (link::RankStart::hello).
#pragma once

#include <string>
#include <string_view>

#include "link/rank_port.h"
#include "rank/ranks.h"

namespace rankcast::rank {

/// The hello of one rank: its device, its options, and the kernel libraries loaded so far, in their
/// order.
std::string hello_of(const RankEnvironment& environment, int rank);

/// The main function of a rank in another process (link::ProcessRankMain): does what the hello
/// says, reports, and runs until it is told to stop. Reports `internal` for a text that hello_of
/// did not make, and what a library says that cannot be loaded.
void rank_main_of(std::string_view hello, link::RankPort& port) noexcept;

}  // namespace rankcast::rank
