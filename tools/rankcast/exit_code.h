// How a command ends: its exit codes.
#pragma once

#include <exception>
#include <new>

#include "rankcast/error.h"

namespace rankcast::tools {

inline constexpr int kExitGood = 0;
/// Something ran and gave a wrong result, or its kernel failed.
inline constexpr int kExitWrongResult = 1;
/// What was typed is wrong; nothing was run.
inline constexpr int kExitUsage = 2;
/// The machine or the installation cannot do it.
inline constexpr int kExitEnvironment = 3;
/// Something did not end in time.
inline constexpr int kExitTimeout = 4;
/// Ctrl-C, as a shell expects it.
inline constexpr int kExitInterrupted = 130;

/// Ctrl-C or a request to end.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

int exit_code_of(ErrorCode code) noexcept;

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
