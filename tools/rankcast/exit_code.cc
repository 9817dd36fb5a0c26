#include "tools/rankcast/exit_code.h"

#include <cstdio>

namespace rankcast::tools {

int exit_code_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return kExitUsage;
    case ErrorCode::task_failed:
    case ErrorCode::undefined_contents:
      return kExitWrongResult;
    case ErrorCode::deadline_exceeded:
      return kExitTimeout;
    default:
      return kExitEnvironment;
  }
}

void print_error(const char* message) noexcept {
  std::fputs("rankcast: ", stderr);
  for (const char* at = message; *at != '\0'; ++at) {
    const bool ends_line = *at == '\n' || *at == '\r';
    if (ends_line && at[1] == '\0') break;
    std::fputc(ends_line ? ' ' : *at, stderr);
  }
  std::fputc('\n', stderr);
}

}  // namespace rankcast::tools
