#include "bench/lib/machine.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string_view>

#include "rankcast/version.h"

namespace rankcast::bench {

namespace {

// Names as Linux spells them, x86 and Arm.
constexpr std::array<std::string_view, 13> kFeatures = {
    "avx",         "avx2",        "fma",   "f16c", "bmi2",    "avx512f", "avx512bw",
    "avx512_bf16", "avx512_vnni", "asimd", "sve",  "asimddp", "bf16"};

struct ProcessorText {
  std::string model;
  std::string flags;
};

ProcessorText read_processor() {
  ProcessorText text;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) text.model = value;
    if (line.starts_with("flags") || line.starts_with("Features")) text.flags = value;
  }
  return text;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::uint64_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 0;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

std::string system_name() {
  utsname name{};
  if (uname(&name) != 0) return {};
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

}  // namespace

Machine this_machine() {
  const ProcessorText text = read_processor();
  Machine machine;
  machine.processor = text.model;
  machine.cores = usable_cores();
  machine.memory_bytes = memory_bytes();
  machine.system = system_name();
  std::istringstream flags(text.flags);
  for (std::string flag; flags >> flag;) {
    if (std::find(kFeatures.begin(), kFeatures.end(), flag) != kFeatures.end()) {
      machine.features.push_back(flag);
    }
  }
  return machine;
}

Build this_build() {
  Build build;
  build.version = library_version();
  build.type = RANKCAST_BUILD_TYPE;
  build.sanitizer = RANKCAST_BUILD_SANITIZER;
#if defined(__clang__)
  build.compiler =
      fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  build.compiler = fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
  return build;
}

std::string describe(const Machine& machine) {
  return fmt::format("{}, {} core{}, {}, {}",
                     machine.processor.empty() ? "unknown processor" : machine.processor,
                     machine.cores, machine.cores == 1 ? "" : "s", bytes_text(machine.memory_bytes),
                     machine.system);
}

std::string describe(const Build& build) {
  std::string text = fmt::format("rankcast {}, {}, {}", build.version, build.type, build.compiler);
  if (!build.sanitizer.empty()) text += fmt::format(", {} sanitizer", build.sanitizer);
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace rankcast::bench
