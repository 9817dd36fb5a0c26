// Where a figure was measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rankcast::bench {

struct Machine {
  std::string processor;  ///< "AMD EPYC"; empty if the system does not say
  int cores = 0;          ///< that this process may use
  std::uint64_t memory_bytes = 0;
  std::string system;                 ///< "Linux 6.1.0 x86_64"
  std::vector<std::string> features;  ///< instruction sets that matter here and that it has
};

/// What this program was built as.
struct Build {
  std::string version;    ///< of the loaded library
  std::string type;       ///< "Release"
  std::string compiler;   ///< "GCC 12.2.0"
  std::string sanitizer;  ///< "address", "thread" or empty
};

/// Reads the system's own description; what cannot be read stays empty.
Machine this_machine();

Build this_build();

/// "AMD EPYC, 2 cores, 23.4 GiB, Linux 6.1.0 x86_64".
std::string describe(const Machine& machine);
/// "rankcast 0.1.0, Release, GCC 12.2.0".
std::string describe(const Build& build);

/// "1.5 GiB", "640 B".
std::string bytes_text(std::uint64_t bytes);

}  // namespace rankcast::bench
