// Files that are installed beside this library: kernels, the program of process ranks.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/status.h"

namespace rankcast::base {

/// The folder of the library or program that this code is part of; empty where it cannot be told.
std::filesystem::path own_folder();

/// The file `name` in `from`, or in the first of `folders` (paths relative to `from`) that has it.
/// Fails with `unsupported`, listing where it looked; `what` begins the text ("the built-in
/// kernels"), `variable` is the environment variable that would name the file.
Result<std::string> find_file_from(const std::filesystem::path& from,
                                   std::span<const char* const> folders, const char* name,
                                   const char* what, const char* variable);

/// The file that the environment variable names, if it is set and not empty (`unsupported` when
/// there is none), else find_file_from own_folder().
Result<std::string> find_own_file(std::span<const char* const> folders, const char* name,
                                  const char* what, const char* variable);

}  // namespace rankcast::base
