// What belongs to an installation of this library beside the library itself.
#pragma once

#include <string>

#include "rankcast/api.h"

namespace rankcast {

/// The files that meshes need, as `Mesh::open` would find them now. A problem says what is wrong
/// and what to do; it is empty when all is well.
struct Installation {
  std::string kernels;         ///< Path of the built-in kernels; empty when they are not found.
  std::string kernels_digest;  ///< SHA-256 of that file, 64 hexadecimal digits.
  std::string kernels_problem;
  std::string rank_program;  ///< Path of the program of process ranks; empty when not found.
  std::string rank_program_problem;
};

/// Looks for the files, as the environment says. Runs nothing of them. Any thread.
RANKCAST_API Installation installation();

}  // namespace rankcast
