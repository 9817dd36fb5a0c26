#include "mesh/watchdog.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace rankcast::mesh {

namespace {

constexpr std::int64_t kMostSeconds = 86'400;
constexpr std::int64_t kMostMs = kMostSeconds * 1'000;
constexpr const char* kVariable = "RANKCAST_WATCHDOG_MS";

}  // namespace

base::Result<std::int64_t> Watchdog::period_ns(std::chrono::duration<double> option) {
  const double seconds = option.count();
  if (!(seconds >= 0 && seconds <= static_cast<double>(kMostSeconds))) {
    return base::unexpected_failure(ErrorCode::invalid_argument,
                                    "watchdog is {} s; it must be 0 (off) to {}", seconds,
                                    kMostSeconds);
  }
  if (seconds > 0) return static_cast<std::int64_t>(std::ceil(seconds * 1e9));
  const char* value = std::getenv(kVariable);
  if (value == nullptr || *value == '\0') return 0;
  const std::string_view text = value;
  std::int64_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (error != std::errc() || end != text.data() + text.size() || ms < 0 || ms > kMostMs) {
    return base::unexpected_failure(ErrorCode::invalid_argument,
                                    "the environment variable {} is \"{}\"; it may be 0 (off) to "
                                    "{} milliseconds",
                                    kVariable, text, kMostMs);
  }
  return ms * 1'000'000;
}

void Watchdog::rest() noexcept {
  resting_ = on();
  next_ns_ = 0;
  told_ = false;
  progress_.clear();
}

Watchdog::Answer Watchdog::compare(std::vector<RankProgress> progress, std::int64_t now_ns) {
  next_ns_ = now_ns + period_ns_;
  Answer answer{base::Deadline::at(next_ns_)};
  if (progress != progress_) {
    progress_ = std::move(progress);
    moved_ns_ = now_ns;
    told_ = false;
  } else if (!std::exchange(told_, true)) {
    answer.still_ns = now_ns - moved_ns_;
  }
  return answer;
}

}  // namespace rankcast::mesh
