// The limits of the control groups that this process is in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace rankcast::tools {

/// The tightest of the group and those above it; nothing where there is no limit, or none can be
/// read.
struct CgroupLimits {
  std::optional<double> cores;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> tasks;  ///< Processes and threads.
};

/// Reads `root`/proc/self/cgroup and `root`/sys/fs/cgroup, of version 2, and of version 1 where
/// that has the controller.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace rankcast::tools
