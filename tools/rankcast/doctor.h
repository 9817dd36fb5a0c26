// `rankcast doctor`: what an operator needs to know of a machine, and whether meshes work on it.
#pragma once

#include <string>

namespace rankcast::tools {

struct Doctor {
  std::string json;  ///< A path, "-" for standard output, empty for none.
};

/// Prints one line a check, and what to do about each that is not well. Returns 0, or the exit code
/// of the first check that failed: kExitEnvironment for all but the self-tests, which may also have
/// a wrong result or not end in time. Takes at most five seconds for each link.
int run_doctor(const Doctor& command);

}  // namespace rankcast::tools
