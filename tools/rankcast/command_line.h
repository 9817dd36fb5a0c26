// What a user types.
#pragma once

namespace rankcast::tools {

/// Parses the command line and runs the command. Prints everything, errors in one line on stderr.
/// Returns the exit code and never throws.
int run_command_line(int argc, const char* const* argv) noexcept;

}  // namespace rankcast::tools
