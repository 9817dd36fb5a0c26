// One line of log at a time, to stderr, above one threshold: RANKCAST_LOG = debug | info | warning
// | error | off (default warning). Never called on the path of a good dispatch. Any thread.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace rankcast::base {

enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

/// The threshold that a value of RANKCAST_LOG means; null (not set) and "" mean the default.
/// `accepted` false: the value is none of those above, and the default holds.
struct LogThreshold {
  LogLevel level = LogLevel::warning;
  bool accepted = true;
};
LogThreshold parse_log_threshold(const char* value) noexcept;

/// True if a line of this level is written. The environment is read once, at the first call; a
/// value that is not accepted is told by one warning line.
bool log_enabled(LogLevel level) noexcept;

/// Writes the line if its level is enabled. Never throws; a line that cannot be written is dropped.
void log_line(LogLevel level, std::string_view line) noexcept;

namespace detail {
template <class... Args>
void log_formatted(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (!log_enabled(level)) return;
  try {
    log_line(level, fmt::format(format, std::forward<Args>(args)...));
  } catch (...) {
    log_line(level, "(a log line could not be formatted)");
  }
}
}  // namespace detail

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) noexcept {
  detail::log_formatted(LogLevel::debug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) noexcept {
  detail::log_formatted(LogLevel::info, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) noexcept {
  detail::log_formatted(LogLevel::warning, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) noexcept {
  detail::log_formatted(LogLevel::error, format, std::forward<Args>(args)...);
}

}  // namespace rankcast::base
