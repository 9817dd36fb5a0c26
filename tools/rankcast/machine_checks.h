// What the doctor finds out of versions, limits, memory and cores.
#pragma once

#include <vector>

#include "tools/rankcast/check_list.h"

namespace rankcast::tools {

std::vector<Check> check_versions();
/// The built-in kernels and the program of process ranks.
std::vector<Check> check_files();
std::vector<Check> check_limits();
/// Memory that processes share, made as meshes of process ranks make it.
std::vector<Check> check_shared_memory();
std::vector<Check> check_cores();

}  // namespace rankcast::tools
