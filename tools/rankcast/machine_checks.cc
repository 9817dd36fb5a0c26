#include "tools/rankcast/machine_checks.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/segment.h"
#include "bench/lib/machine.h"
#include "rankcast/rankcast.h"
#include "tools/rankcast/cgroup.h"

namespace rankcast::tools {

namespace {

/// A mesh of 8 process ranks has about 70 of them before tensors take more.
constexpr rlim_t kDescriptors = 1024;
/// A mesh of 8 ranks reserves 64 MiB for the first tensors of each, and control memory and frames.
constexpr std::uint64_t kAddressSpace = std::uint64_t{4} << 30;
constexpr std::uint64_t kSharedBytes = std::uint64_t{64} << 20;
constexpr rlim_t kThreads = 256;

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "no limit" : fmt::format("{}", limit);
}

std::string bytes_limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "no limit" : bench::bytes_text(limit);
}

rlimit limit_of(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  getrlimit(resource, &limit);
  return limit;
}

Check check_descriptors() {
  const rlimit limit = limit_of(RLIMIT_NOFILE);
  const std::string found = fmt::format("{} (may be raised to {})", limit_text(limit.rlim_cur),
                                        limit_text(limit.rlim_max));
  if (limit.rlim_cur >= kDescriptors) return good("descriptors", found);
  return warned("descriptors", found,
                fmt::format("process ranks and their memory take one each: ulimit -n {}, or more",
                            kDescriptors));
}

Check check_address_space() {
  const rlimit limit = limit_of(RLIMIT_AS);
  const std::string found = fmt::format("{}, {} at once", bytes_limit_text(limit.rlim_cur),
                                        bench::bytes_text(kAddressSpace));
  const auto segment = base::Segment::reserve(kAddressSpace);
  if (segment) return good("address space", found + " can be reserved");
  return warned("address space", segment.error().text,
                limit.rlim_cur == RLIM_INFINITY
                    ? "memory is reserved before it is used: set vm.overcommit_memory to 0 or 1"
                    : "memory is reserved before it is used: ulimit -v unlimited");
}

Check check_threads(const CgroupLimits& cgroup) {
  const rlimit limit = limit_of(RLIMIT_NPROC);
  std::string found = limit_text(limit.rlim_cur);
  if (cgroup.tasks) found += fmt::format(", {} in its control group", *cgroup.tasks);
  if (limit.rlim_cur >= kThreads && (!cgroup.tasks || *cgroup.tasks >= kThreads)) {
    return good("threads and processes", found);
  }
  return warned("threads and processes", found,
                "each rank is one, and process ranks have a second: raise ulimit -u, or the "
                "control group's pids.max");
}

}  // namespace

std::vector<Check> check_versions() {
  const bench::Build build = bench::this_build();
  const bench::Machine machine = bench::this_machine();
  std::vector<Check> checks;
  const std::string library = library_version();
  if (library == RANKCAST_VERSION_STRING) {
    checks.push_back(good("rankcast", fmt::format("{}, {}", library, build.type)));
  } else {
    checks.push_back(
        failed("rankcast", fmt::format("command {}, library {}", RANKCAST_VERSION_STRING, library),
               "the command finds the library of another installation: look at LD_LIBRARY_PATH"));
  }
  checks.push_back(good("kernel ABI", fmt::format("{}", RANKCAST_KERNEL_ABI_VERSION)));
  checks.push_back(good("compiler", build.compiler));
  checks.push_back(good("C library", fmt::format("glibc {}", gnu_get_libc_version())));
  checks.push_back(good("system", machine.system));
  checks.push_back(good("processor", machine.processor.empty() ? "unknown" : machine.processor));
  checks.push_back(good("processor features", fmt::format("{}", fmt::join(machine.features, " "))));
  return checks;
}

std::vector<Check> check_files() {
  const Installation found = installation();
  std::vector<Check> checks;
  if (found.kernels_problem.empty()) {
    checks.push_back(good("built-in kernels", found.kernels));
    checks.push_back(good("their SHA-256", found.kernels_digest));
  } else {
    checks.push_back(failed("built-in kernels", found.kernels_problem,
                            "install again, or correct RANKCAST_KERNEL_LIBRARY"));
  }
  checks.push_back(found.rank_program_problem.empty()
                       ? good("rank program", found.rank_program)
                       : failed("rank program", found.rank_program_problem,
                                "install again, or correct RANKCAST_RANK_BINARY"));
  return checks;
}

std::vector<Check> check_limits() {
  const CgroupLimits cgroup = read_cgroup_limits();
  const std::uint64_t memory = bench::this_machine().memory_bytes;
  std::vector<Check> checks;
  checks.push_back(check_descriptors());
  checks.push_back(good("locked memory", bytes_limit_text(limit_of(RLIMIT_MEMLOCK).rlim_cur) +
                                             " (nothing is locked)"));
  checks.push_back(check_address_space());
  checks.push_back(check_threads(cgroup));
  checks.push_back(
      good("memory", cgroup.memory_bytes
                         ? fmt::format("{}, {} for its control group", bench::bytes_text(memory),
                                       bench::bytes_text(*cgroup.memory_bytes))
                         : bench::bytes_text(memory)));
  return checks;
}

std::vector<Check> check_shared_memory() {
  const char* const advice =
      "link process needs it: Linux 5.3 or later with memfd_create, and a sandbox that allows it";
  auto created = base::Segment::create_shared(kSharedBytes);
  if (!created) return {failed("memfd", created.error().text, advice)};
  std::vector<Check> checks = {
      good("memfd", fmt::format("{} made and sealed", bench::bytes_text(kSharedBytes)))};
  const auto mapped = base::Segment::map_shared(created->fd.get(), kSharedBytes, false);
  constexpr char kText[] = "rankcast doctor";
  if (mapped) std::memcpy(created->memory.base() + kSharedBytes / 2, kText, sizeof(kText));
  if (!mapped) {
    checks.push_back(failed("mapped twice", mapped.error().text, advice));
  } else if (std::memcmp(mapped->base() + kSharedBytes / 2, kText, sizeof(kText)) != 0) {
    checks.push_back(failed("mapped twice", "what one mapping writes the other does not see",
                            advice, kExitWrongResult));
  } else {
    checks.push_back(good("mapped twice", "what one mapping writes the other sees"));
  }
  if (ftruncate(created->fd.get(), 1) == 0) {
    checks.push_back(failed("seals", "a sealed memfd could be cut short", advice));
  } else {
    checks.push_back(good("seals", "its size cannot be changed"));
  }
  return checks;
}

std::vector<Check> check_cores() {
  const int usable = bench::this_machine().cores;
  const CgroupLimits cgroup = read_cgroup_limits();
  std::vector<Check> checks;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const std::string affinity = fmt::format("{} of {} online", usable, online);
  checks.push_back(
      usable > 1 || online <= 1
          ? good("affinity", affinity)
          : warned("affinity", affinity,
                   "ranks and host share one core: look at taskset or the job's cpus"));
  const std::string group =
      cgroup.cores ? fmt::format("{:g} cores", *cgroup.cores) : std::string("no limit");
  checks.push_back(
      !cgroup.cores || *cgroup.cores >= static_cast<double>(usable)
          ? good("control group", group)
          : warned("control group", group,
                   "fewer than the process may run on: ranks that spin use up the quota and then "
                   "all stop; raise it, or bind the process to so many cores"));
  return checks;
}

}  // namespace rankcast::tools
