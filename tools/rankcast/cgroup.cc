#include "tools/rankcast/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace rankcast::tools {

namespace {

namespace fs = std::filesystem;

/// Version 1 writes about this where there is no limit on memory.
constexpr std::uint64_t kNoMemoryLimit = std::uint64_t{1} << 62;

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// Nothing for "max", "-1" and what is no number.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class T>
void tighten(std::optional<T>* limit, std::optional<T> found) {
  if (found && (!*limit || *found < **limit)) *limit = found;
}

std::optional<double> cores_of(std::optional<std::uint64_t> quota,
                               std::optional<std::uint64_t> period) {
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

void read_version_2(const fs::path& folder, CgroupLimits* limits) {
  const std::string cpu = first_line(folder / "cpu.max");  // "200000 100000"
  const std::size_t blank = std::min(cpu.find(' '), cpu.size());
  tighten(&limits->cores,
          cores_of(number(std::string_view(cpu).substr(0, blank)),
                   number(std::string_view(cpu).substr(std::min(blank + 1, cpu.size())))));
  tighten(&limits->memory_bytes, number(first_line(folder / "memory.max")));
  tighten(&limits->tasks, number(first_line(folder / "pids.max")));
}

void read_version_1(const fs::path& folder, CgroupLimits* limits) {
  tighten(&limits->cores, cores_of(number(first_line(folder / "cpu.cfs_quota_us")),
                                   number(first_line(folder / "cpu.cfs_period_us"))));
  const auto memory = number(first_line(folder / "memory.limit_in_bytes"));
  if (memory && *memory < kNoMemoryLimit) tighten(&limits->memory_bytes, memory);
  tighten(&limits->tasks, number(first_line(folder / "pids.max")));
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  const fs::path mounted = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b", "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    // In a container the group may be one that is not mounted: then those above it are looked at.
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (;; group = group.parent_path()) {
      if (controllers.empty()) {
        read_version_2(mounted / group, &limits);
      } else {
        read_version_1(mounted / controllers / group, &limits);
      }
      if (group.empty()) break;
    }
  }
  return limits;
}

}  // namespace rankcast::tools
