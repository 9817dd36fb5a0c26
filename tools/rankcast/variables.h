// The environment variables that the library reads, and how those that are set fare.
#pragma once

#include <string_view>
#include <vector>

#include "tools/rankcast/check_list.h"

namespace rankcast::tools {

/// One check a variable: all that the library reads, whether they are set or not, then those of
/// `environment` that begin with RANKCAST_ and that nobody reads, each with the nearest name that
/// somebody does. Those that begin with RANKCAST_TEST_ are the tests' and left out. `environment`
/// is as `environ`: "name=value", ended by a null pointer.
std::vector<Check> check_variables(const char* const* environment);

/// How many insertions, removals and changes of one character make `from` into `to`.
int edit_distance(std::string_view from, std::string_view to);

}  // namespace rankcast::tools
