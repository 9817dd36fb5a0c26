// What a host needs to know of ranks without knowing devices: who they are, and what each of them
// runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "link/rank_port.h"
#include "rank/executor.h"
#include "rank/kernel_registry.h"

namespace rankcast::rank {

/// One rank as it was asked for.
struct RankPlan {
  std::string device;       // "cpu:3"
  std::string description;  // for people
  bool computes = true;     // false where launches are not executed
  ExecutorOptions options;
};

/// What a device string asks for, one plan a rank. Every device is checked: `invalid_argument` for
/// a malformed string or an unknown kind or option, `unsupported` for a kind that this machine
/// cannot have.
base::Result<std::vector<RankPlan>> plan_ranks(std::string_view devices);

/// What the threads of ranks share. They keep it alive.
struct RankEnvironment {
  KernelRegistry kernels;
  std::vector<RankPlan> plans;
};

/// The main function of a rank (link::RankMain): makes its device and executor, reports, and runs
/// until it is told to stop.
void rank_main(RankEnvironment& environment, link::RankPort& port) noexcept;

}  // namespace rankcast::rank
