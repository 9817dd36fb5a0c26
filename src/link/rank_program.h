// Where the program of process ranks is.
#pragma once

#include <string>

#include "base/status.h"

namespace rankcast::link {

/// `named` if it is not empty, else what the environment variable RANKCAST_RANK_BINARY names, else
/// `rankcast-rank` beside the library or program that this code is part of, in the folder above, or
/// in `bin` or `libexec` beside its folder. Fails with `unsupported`, listing where it looked.
base::Result<std::string> find_rank_program(const std::string& named);

}  // namespace rankcast::link
