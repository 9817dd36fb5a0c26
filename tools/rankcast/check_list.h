// What `rankcast doctor` finds out, one line a check.
#pragma once

#include <string>
#include <vector>

#include "tools/rankcast/exit_code.h"

namespace rankcast::tools {

enum class Verdict { ok, warning, failed };

/// "ok", "warning", "FAILED".
const char* verdict_name(Verdict verdict) noexcept;

struct Check {
  std::string name;
  Verdict verdict = Verdict::ok;
  std::string found;   ///< What was found.
  std::string advice;  ///< What to do; empty when all is well.
  /// Of a failed one: how the command ends.
  int exit_code = kExitEnvironment;
};

struct CheckGroup {
  std::string name;
  std::vector<Check> checks;
};

inline Check good(std::string name, std::string found) {
  return {std::move(name), Verdict::ok, std::move(found), {}, kExitEnvironment};
}
inline Check warned(std::string name, std::string found, std::string advice) {
  return {std::move(name), Verdict::warning, std::move(found), std::move(advice), kExitEnvironment};
}
inline Check failed(std::string name, std::string found, std::string advice,
                    int exit_code = kExitEnvironment) {
  return {std::move(name), Verdict::failed, std::move(found), std::move(advice), exit_code};
}

/// The exit code of the first check that failed, 0 when none did.
int exit_code_of(const std::vector<CheckGroup>& groups) noexcept;

/// One line a check, and one more where there is something to do.
std::string text_of(const std::vector<CheckGroup>& groups);
std::string json_of(const std::vector<CheckGroup>& groups);

}  // namespace rankcast::tools
