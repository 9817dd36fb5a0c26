#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace rankcast::base {
namespace {

spdlog::level::level_enum native_level(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

class Logger {
 public:
  Logger() : logger_("rankcast", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_pattern("[%H:%M:%S.%e] [rankcast] [%l] %v");
    logger_.set_level(spdlog::level::trace);
    logger_.flush_on(spdlog::level::trace);
    // A line that cannot be written is dropped, as the contract says, and not told on stderr
    // either.
    logger_.set_error_handler([](const std::string&) {});
    const char* value = std::getenv("RANKCAST_LOG");
    const LogThreshold threshold = parse_log_threshold(value);
    level_ = threshold.level;
    if (!threshold.accepted) {
      logger_.warn(
          "RANKCAST_LOG is \"{}\", which is none of debug, info, warning, error, off: "
          "using warning",
          value);
    }
  }

  bool enabled(LogLevel level) const noexcept { return level >= level_ && level != LogLevel::off; }

  void write(LogLevel level, std::string_view line) {
    logger_.log(native_level(level), spdlog::string_view_t(line.data(), line.size()));
  }

 private:
  spdlog::logger logger_;
  LogLevel level_ = LogLevel::warning;
};

// Null when it could not be made: then nothing is logged.
Logger* logger() noexcept {
  static const std::unique_ptr<Logger> instance = []() noexcept -> std::unique_ptr<Logger> {
    try {
      return std::make_unique<Logger>();
    } catch (...) {
      return nullptr;
    }
  }();
  return instance.get();
}

}  // namespace

LogThreshold parse_log_threshold(const char* value) noexcept {
  const std::string_view text = value == nullptr ? std::string_view() : value;
  if (text.empty()) return {};
  if (text == "debug") return {LogLevel::debug, true};
  if (text == "info") return {LogLevel::info, true};
  if (text == "warning") return {LogLevel::warning, true};
  if (text == "error") return {LogLevel::error, true};
  if (text == "off") return {LogLevel::off, true};
  return {LogLevel::warning, false};
}

bool log_enabled(LogLevel level) noexcept {
  const Logger* log = logger();
  return log != nullptr && log->enabled(level);
}

void log_line(LogLevel level, std::string_view line) noexcept {
  Logger* log = logger();
  if (log == nullptr || !log->enabled(level)) return;
  try {
    log->write(level, line);
  } catch (...) {  // ignored: a line that cannot be written is dropped, as the contract says
  }
}

}  // namespace rankcast::base
