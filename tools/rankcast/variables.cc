#include "tools/rankcast/variables.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <system_error>

namespace rankcast::tools {

namespace {

constexpr std::string_view kPrefix = "RANKCAST_";
constexpr std::string_view kTestPrefix = "RANKCAST_TEST_";

struct Variable {
  const char* name;
  std::vector<std::string_view> accepted;  // empty: any value, and others look at it
  Verdict otherwise = Verdict::ok;         // of another value
  std::uint64_t most = 0;                  // not 0: a whole number up to this is accepted
};

const std::vector<Variable>& known_variables() {
  static const std::vector<Variable> variables = {
      {"RANKCAST_LOG", {"debug", "info", "warning", "error", "off"}, Verdict::warning},
      {"RANKCAST_KERNEL_LIBRARY", {}},
      {"RANKCAST_RANK_BINARY", {}},
      {"RANKCAST_POISON", {"1"}, Verdict::warning},
      {"RANKCAST_STORES", {"measured", "ordinary", "streaming"}, Verdict::failed},
      {"RANKCAST_WATCHDOG_MS", {}, Verdict::failed, 86'400'000},
  };
  return variables;
}

bool is_number_up_to(std::string_view text, std::uint64_t most) noexcept {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number <= most;
}

Check check_known(const Variable& variable, std::string_view value) {
  if (value.empty()) return good(variable.name, "not set");
  const std::string found = fmt::format("\"{}\"", value);
  bool accepted = std::ranges::find(variable.accepted, value) != variable.accepted.end();
  std::string wanted = fmt::format("one of: {}", fmt::join(variable.accepted, ", "));
  if (variable.most != 0) {
    accepted = is_number_up_to(value, variable.most);
    wanted = fmt::format("a whole number from 0 to {}", variable.most);
  } else if (variable.accepted.empty()) {
    accepted = true;
  }
  if (accepted) return good(variable.name, found);
  const std::string advice =
      fmt::format("{}; use {}",
                  variable.otherwise == Verdict::failed ? "no mesh can be opened with this"
                                                        : "a value that does nothing",
                  wanted);
  return {variable.name, variable.otherwise, found, advice, kExitEnvironment};
}

}  // namespace

int edit_distance(std::string_view from, std::string_view to) {
  std::vector<int> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const int change = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::vector<Check> check_variables(const char* const* environment) {
  std::map<std::string, std::string, std::less<>> ours;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view name = entry.substr(0, equals);
    if (!name.starts_with(kPrefix) || name.starts_with(kTestPrefix)) continue;
    ours.emplace(name, equals == entry.size() ? "" : entry.substr(equals + 1));
  }
  std::vector<Check> checks;
  for (const Variable& variable : known_variables()) {
    const auto found = ours.find(std::string_view(variable.name));
    checks.push_back(check_known(variable, found == ours.end() ? "" : found->second));
    if (found != ours.end()) ours.erase(found);
  }
  for (const auto& [name, value] : ours) {
    const auto& nearest = *std::ranges::min_element(
        known_variables(), {},
        [&](const Variable& variable) { return edit_distance(name, variable.name); });
    checks.push_back(
        warned(name, fmt::format("\"{}\"", value),
               fmt::format("nothing reads it; the nearest that is read is {}", nearest.name)));
  }
  return checks;
}

}  // namespace rankcast::tools
