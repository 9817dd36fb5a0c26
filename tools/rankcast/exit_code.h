// How a command ends.
#pragma once

#include <exception>
#include <new>

#include "rankcast/error.h"

namespace rankcast::tools {

enum ExitCode : int {
  kExitGood = 0,
  kExitWrongResult = 1,   ///< Something ran and gave a wrong result, or its kernel failed.
  kExitUsage = 2,         ///< What was typed is wrong; nothing was run.
  kExitEnvironment = 3,   ///< The machine or the installation cannot do it.
  kExitTimeout = 4,       ///< Something did not end in time.
  kExitInterrupted = 130  ///< Ctrl-C, as a shell expects it.
};

/// Ctrl-C or a request to end.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

ExitCode exit_code_of(ErrorCode code) noexcept;

/// Runs `command`, says on stderr in one line what it threw, and gives the exit code for it.
template <class Command>
int run_guarded(const Command& command) noexcept;

/// One line on stderr: "rankcast: " and the message, line breaks made blanks.
void print_error(const char* message) noexcept;

template <class Command>
int run_guarded(const Command& command) noexcept {
  try {
    return command();
  } catch (const Interrupted& interrupted) {
    print_error(interrupted.what());
    return kExitInterrupted;
  } catch (const Error& error) {
    print_error(error.what());
    return exit_code_of(error.code());
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
    return kExitEnvironment;
  } catch (const std::exception& error) {
    print_error(error.what());
    return kExitEnvironment;
  }
}

}  // namespace rankcast::tools
