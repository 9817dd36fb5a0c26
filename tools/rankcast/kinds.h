// Which devices and links this installation can use.
#pragma once

#include <string>
#include <vector>

namespace rankcast::tools {

/// Something that a mesh can be opened with, or why it cannot.
struct Kind {
  std::string name;
  std::string reason;  ///< Empty: available.
};

/// Opens a mesh of one rank with each.
std::vector<Kind> probe_devices();
std::vector<Kind> probe_links();

}  // namespace rankcast::tools
