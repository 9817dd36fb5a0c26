#include "link/rank_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rankcast::link {
namespace {

constexpr std::size_t kKeptBytes = 2048;
constexpr std::size_t kShownBytes = 600;
constexpr std::size_t kTakenAtOnce = std::size_t{64} << 10;  // the next look takes more

}  // namespace

void pass_on(const std::vector<Printed>& all) noexcept {
  for (const Printed& printed : all) {
    std::string_view left = printed.text;
    while (!left.empty()) {
      const ssize_t written = write(printed.to, left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;
      left.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

base::Status RankOutput::open(const base::Epoll& events, Ends* ends) {
  std::array<std::pair<int, base::Fd*>, 2> kinds{std::pair{STDOUT_FILENO, &ends->standard_output},
                                                 std::pair{STDERR_FILENO, &ends->standard_error}};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    auto pipe = base::output_pipe();
    if (!pipe) {
      close(events);
      return std::move(pipe).error();
    }
    if (base::Status status = events.add(pipe->first.get()); !status.ok()) {
      close(events);
      return status;
    }
    streams_[i] = {std::move(pipe->first), kinds[i].first};
    *kinds[i].second = std::move(pipe->second);
  }
  return {};
}

void RankOutput::take(const base::Epoll& events, std::vector<Printed>* all) {
  for (Stream& stream : streams_) {
    std::array<char, 4096> buffer{};
    std::size_t taken = 0;
    while (!stream.pipe.empty() && taken < kTakenAtOnce) {
      const ssize_t count = read(stream.pipe.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) break;
      if (count <= 0) {
        events.remove(stream.pipe.get());
        stream.pipe.reset();
        break;
      }
      const std::string_view text(buffer.data(), static_cast<std::size_t>(count));
      taken += text.size();
      keep(text);
      all->push_back({stream.to, std::string(text)});
    }
  }
}

void RankOutput::close(const base::Epoll& events) noexcept {
  for (Stream& stream : streams_) {
    if (stream.pipe.empty()) continue;
    events.remove(stream.pipe.get());
    stream.pipe.reset();
  }
}

void RankOutput::keep(std::string_view text) {
  kept_ += text;
  if (kept_.size() > 2 * kKeptBytes) kept_.erase(0, kept_.size() - kKeptBytes);
}

std::string RankOutput::describe() const {
  std::string_view last = kept_;
  while (!last.empty() && (last.back() == '\n' || last.back() == ' ')) last.remove_suffix(1);
  if (last.empty()) return {};
  if (last.size() > kShownBytes) {
    last.remove_prefix(last.size() - kShownBytes);
    // Whole lines, if there is one.
    if (const auto line = last.find('\n'); line != std::string_view::npos) {
      last.remove_prefix(line + 1);
    }
  }
  return fmt::format("; it printed last: {}", last);
}

}  // namespace rankcast::link
