// The keeper's watch (P11): what it sees of the ranks, and what it says when they stand still.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "frame/report.h"
#include "mesh/core.h"

namespace rankcast::detail {

namespace {

constexpr std::size_t kToldFlights = 4;  // of each rank; last_dispatches has more

/// The dispatch that the rank is in, or was in last.
frame::Flight last_flight(const frame::FlightEntry* entries) {
  const std::vector<frame::Flight> flights = frame::read_flights(entries, 1);
  return flights.empty() ? frame::Flight() : flights.front();
}

std::string value_text(base::TimelineValue value) {
  return fmt::format("run {}, {} task{}", value.run(), value.tasks(),
                     value.tasks() == 1 ? "" : "s");
}

}  // namespace

base::Deadline MeshCore::watch() {
  mesh::Watchdog::Answer answer;
  std::vector<std::string> lines;
  {
    base::MutexLock lock(mutex_);
    const std::int64_t now_ns = base::now_ns();
    const bool busy = std::ranges::any_of(runs_->in_flight(),
                                          [this](const RunState* state) { return !ended(*state); });
    const auto progress = [this]() {
      mutex_.assert_held();  // by the lock above: the analysis does not look into lambdas
      return progress_locked();
    };
    answer = watchdog_.look(busy, progress, now_ns);
    if (answer.still_ns != 0) lines = describe_standstill_locked(answer.still_ns, now_ns);
  }
  for (const std::string& line : lines) base::log_error("watchdog: {}", line);
  return answer.next;
}

std::vector<mesh::RankProgress> MeshCore::progress_locked() {
  std::vector<mesh::RankProgress> progress;
  progress.reserve(static_cast<std::size_t>(world_size_));
  for (int rank = 0; rank < world_size_; ++rank) {
    const frame::Flight flight = last_flight(runs_->flights(rank));
    progress.push_back({link_->timeline(rank).peek(), flight.run, flight.task});
  }
  return progress;
}

std::vector<std::string> MeshCore::describe_standstill_locked(std::int64_t still_ns,
                                                              std::int64_t now_ns) {
  std::vector<std::string> behind;
  std::vector<std::string> flights;
  for (int rank = 0; rank < world_size_; ++rank) {
    std::string text = describe_rank_behind_locked(rank, now_ns);
    if (!text.empty()) behind.push_back(std::move(text));
    std::string did =
        frame::describe_flights(frame::read_flights(runs_->flights(rank), kToldFlights), now_ns);
    flights.push_back(
        fmt::format("rank {} did last: {}", rank, did.empty() ? "nothing" : std::move(did)));
  }
  std::vector<std::string> lines;
  lines.push_back(fmt::format("nothing has moved for {}; {} of {} ranks are behind",
                              frame::duration_text(0, still_ns), behind.size(), world_size_));
  std::ranges::move(behind, std::back_inserter(lines));
  std::ranges::move(flights, std::back_inserter(lines));
  return lines;
}

// Of the oldest run that the rank has not ended; empty for a rank that has nothing to do.
std::string MeshCore::describe_rank_behind_locked(int rank, std::int64_t now_ns) {
  const RunState* oldest = nullptr;
  const RunLane* lane = nullptr;
  std::size_t count = 0;
  for (const RunState* state : runs_->in_flight()) {
    for (const RunLane& one : state->lanes) {
      if (one.rank != rank || link_->timeline(rank).reached(one.end)) continue;
      ++count;
      if (oldest != nullptr && oldest->run < state->run) continue;
      oldest = state;
      lane = &one;
    }
  }
  if (oldest == nullptr) return {};
  std::string text = fmt::format("rank {}: run {}, ", rank, oldest->run);
  const frame::Flight flight = last_flight(runs_->flights(rank));
  if (flight.run != oldest->run || flight.left) {
    text += "which the rank has not taken";
  } else {
    text += describe_task(*oldest, *lane, flight.task);
    text += fmt::format("; taken {} before", frame::duration_text(flight.entry_ns, now_ns));
  }
  text += fmt::format("; its timeline is at {}", value_text(link_->timeline(rank).peek()));
  if (count > 1) {
    text += fmt::format("; {} later run{} behind it", count - 1, count == 2 ? " waits" : "s wait");
  }
  return text;
}

// `ordinal` is what the rank says. The frame is the host's own copy.
std::string MeshCore::describe_task(const RunState& state, const RunLane& lane,
                                    std::uint32_t ordinal) const {
  if (state.libraries != nullptr) return "loading a kernel library";
  if (ordinal == frame::kNone) return "before its first task";
  const auto tasks = frame::tasks_of(lane.frame_address);
  if (ordinal >= tasks.size()) {
    return fmt::format("at a task that cannot be (number {} of {} on this rank)", ordinal,
                       tasks.size());
  }
  const frame::TaskRecord& task = tasks[ordinal];
  std::string text = fmt::format("task {} ('{}'), number {} of {} on this rank", task.task,
                                 name_of(task), ordinal + 1, tasks.size());
  const auto add_missing = [&](std::uint32_t on, base::TimelineValue wanted) {
    const base::TimelineValue reached = link_->timeline(static_cast<int>(on)).peek();
    if (reached >= wanted) return;
    text += fmt::format(", waits for lane {} to reach {} (it is at {})", on, value_text(wanted),
                        value_text(reached));
  };
  for (const frame::WaitRecord& wait : frame::waits_of(lane.frame_address, task)) {
    add_missing(wait.lane, base::TimelineValue::make(state.run, wait.tasks));
  }
  if (lane.side_address == nullptr) return text;
  for (const frame::RunWait& wait : frame::run_waits_of(lane.side_address)) {
    if (wait.before <= ordinal) add_missing(wait.lane, base::TimelineValue{wait.value});
  }
  return text;
}

std::string_view MeshCore::name_of(const frame::TaskRecord& task) const {
  switch (task.kind) {
    case frame::TaskKind::launch:
      return environment_->kernels.entry(task.kernel)->name;
    case frame::TaskKind::upload:
      return "upload";
    case frame::TaskKind::download:
      return "download";
    default:
      return "copy";
  }
}

}  // namespace rankcast::detail
