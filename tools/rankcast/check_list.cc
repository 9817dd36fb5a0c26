#include "tools/rankcast/check_list.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace rankcast::tools {

namespace {

int count_of(const std::vector<CheckGroup>& groups, Verdict verdict) noexcept {
  int count = 0;
  for (const CheckGroup& group : groups) {
    for (const Check& check : group.checks) count += check.verdict == verdict ? 1 : 0;
  }
  return count;
}

}  // namespace

const char* verdict_name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::warning:
      return "warning";
    default:
      return "FAILED";
  }
}

int exit_code_of(const std::vector<CheckGroup>& groups) noexcept {
  for (const CheckGroup& group : groups) {
    for (const Check& check : group.checks) {
      if (check.verdict == Verdict::failed) return check.exit_code;
    }
  }
  return kExitGood;
}

std::string text_of(const std::vector<CheckGroup>& groups) {
  std::string text;
  for (const CheckGroup& group : groups) {
    text += group.name + "\n";
    for (const Check& check : group.checks) {
      text +=
          fmt::format("  {:<8}{:<25}{}\n", verdict_name(check.verdict), check.name, check.found);
      if (!check.advice.empty()) text += fmt::format("{:35}-> {}\n", "", check.advice);
    }
  }
  const int failures = count_of(groups, Verdict::failed);
  const int warnings = count_of(groups, Verdict::warning);
  const std::string warned = fmt::format("{} warning{}", warnings, warnings == 1 ? "" : "s");
  return text + (failures == 0 ? fmt::format("all is well, {}\n", warned)
                               : fmt::format("{} FAILED, {}\n", failures, warned));
}

std::string json_of(const std::vector<CheckGroup>& groups) {
  nlohmann::ordered_json json;
  json["schema"] = "rankcast.doctor/1";
  json["good"] = count_of(groups, Verdict::failed) == 0;
  for (const CheckGroup& group : groups) {
    nlohmann::ordered_json& checks = json[group.name] = nlohmann::ordered_json::object();
    for (const Check& check : group.checks) {
      checks[check.name] = {{"verdict", verdict_name(check.verdict)},
                            {"found", check.found},
                            {"advice", check.advice}};
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace rankcast::tools
