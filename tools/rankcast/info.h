// `rankcast info`.
#pragma once

#include <optional>
#include <string>

namespace rankcast::tools {

struct Info {
  std::optional<std::string> devices;  ///< Opened and described.
  std::string link = "thread";
  std::string json;  ///< A path, "-" for standard output, empty for none.
};

/// Prints what this installation is and what it can use. Returns the exit code; throws what opening
/// the devices throws.
int run_info(const Info& command);

}  // namespace rankcast::tools
