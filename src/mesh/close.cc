// The end of a mesh. Closers come one at a time; a try that runs out of budget leaves a mesh that
// admits nothing and may be closed again.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "frame/report.h"
#include "mesh/core.h"

namespace rankcast::detail {

using base::failure;
using base::Status;
using base::throw_error;

namespace {

constexpr std::size_t kToldLeaks = 8;
constexpr std::size_t kToldRanks = 8;

}  // namespace

base::Deadline checked_deadline(std::chrono::duration<double> timeout, const char* name) {
  const double seconds = timeout.count();
  if (std::isnan(seconds) || seconds < 0) {
    throw_error(
        failure(ErrorCode::invalid_argument, "{} is {} s; it must be 0 or more", name, seconds));
  }
  return seconds > 1e9 ? base::Deadline::never()
                       : base::Deadline::after(static_cast<std::int64_t>(seconds * 1e9));
}

CloseReport MeshCore::close(std::chrono::duration<double> budget) {
  const base::Deadline deadline = checked_deadline(budget, "close: the budget");
  if (is_forked()) return {};
  check_not_orchestrating("close");
  std::unique_lock closer(lifecycle_, std::defer_lock);
  if (deadline.is_never()) {
    closer.lock();
  } else if (!closer.try_lock_for(std::chrono::nanoseconds(deadline.remaining_ns()))) {
    throw_error(failure(ErrorCode::deadline_exceeded,
                        "close: another thread is still closing the mesh; wait for it, or close "
                        "with a larger budget"));
  }
  if (base::load_acquire(life_) == Life::closed) return {};  // pairs: mesh_life

  CloseReport report;
  {
    base::MutexLock lock(mutex_);
    base::store_release(life_, Life::closing);  // pairs: mesh_life
    report.drained_runs = runs_->in_flight().size();
  }
  link_->control().waiters().notify();  // submits that wait for a slot
  drain(deadline);
  stop_ranks(deadline);
  keeper_.reset();

  {
    base::MutexLock lock(mutex_);
    note_leaks_locked(&report);
    base::store_release(life_, Life::closed);   // pairs: mesh_life
    if (pins_.empty()) link_->drop_segments();  // else the last resident view does
  }
  if (!report.leak_message.empty()) base::log_info("{}", report.leak_message);
  return report;
}

void MeshCore::note_leaks_locked(CloseReport* report) {
  std::string ranks;
  std::size_t ranks_told = 0;
  std::vector<LeakedBuffer>& largest = report->largest_leaks;
  for (int rank = 0; rank < world_size_; ++rank) {
    memory::BufferTable& table = *tables_[static_cast<std::size_t>(rank)];
    if (table.live_buffers() == 0) continue;
    report->leaked_buffers += table.live_buffers();
    report->leaked_bytes += table.live_bytes();
    if (++ranks_told <= kToldRanks) {
      ranks += fmt::format("{}rank {} has {} with {} bytes", ranks.empty() ? "" : ", ", rank,
                           table.live_buffers(), table.live_bytes());
    }
    for (const auto& [key, bytes] : table.largest(kToldLeaks)) {
      largest.push_back({rank, key.slot, key.generation, bytes});
    }
    std::ranges::sort(largest, [](const LeakedBuffer& a, const LeakedBuffer& b) {
      return std::tie(b.bytes, a.rank, a.slot) < std::tie(a.bytes, b.rank, b.slot);
    });
    if (largest.size() > kToldLeaks) largest.resize(kToldLeaks);
  }
  if (largest.empty()) return;
  if (ranks_told > kToldRanks) ranks += fmt::format(", and {} more ranks", ranks_told - kToldRanks);
  report->leak_message = fmt::format(
      "close: {} buffer{} with {} bytes {} never freed: {}; the largest has {} bytes (slot {}, "
      "generation {} of rank {}); pass each tensor to Mesh::free once it is of no more use",
      report->leaked_buffers, report->leaked_buffers == 1 ? "" : "s", report->leaked_bytes,
      report->leaked_buffers == 1 ? "was" : "were", ranks, largest.front().bytes,
      largest.front().slot, largest.front().generation, largest.front().rank);
}

void MeshCore::drain(base::Deadline deadline) {
  std::string names;
  const auto drained = [&]() noexcept {
    base::MutexLock lock(mutex_);
    finish_ended_locked();
    return runs_->in_flight().empty() && runs_->reserved() == 0;
  };
  if (link_->control().waiters().wait(drained, link_->spin(), deadline) == base::WaitResult::ready)
    return;
  base::MutexLock lock(mutex_);
  std::size_t behind = 0;
  for (const RunState* state : runs_->in_flight()) {
    for (const RunLane& lane : state->lanes) {
      if (link_->timeline(lane.rank).reached(lane.end) || ++behind > kToldRanks) continue;
      names += names.empty() ? "" : ", ";
      names += describe_lane(*state, lane);
    }
  }
  if (behind > kToldRanks) names += fmt::format(", and {} more", behind - kToldRanks);
  throw_error(failure(ErrorCode::deadline_exceeded,
                      "close: still in flight: {}; the mesh admits nothing more; close it again to "
                      "wait longer{}",
                      names.empty() ? "a submit that has not published yet" : names,
                      behind == 0 ? ""
                      : link_->can_restart_ranks()
                          ? ", or kill the process of a rank that hangs"
                          : "; a kernel that never returns can be ended on link 'process' alone"));
}

std::string MeshCore::describe_lane(const RunState& state, const RunLane& lane) {
  std::string text = fmt::format("run {} on rank {}", state.run, lane.rank);
  const auto tasks = state.libraries == nullptr ? frame::tasks_of(lane.frame_address)
                                                : std::span<const frame::TaskRecord>();
  std::string inside;
  if (tasks.size() == 1) inside = fmt::format("'{}'", name_of(tasks.front()));
  if (tasks.size() > 1) {
    inside = fmt::format("{} tasks, the first '{}'", tasks.size(), name_of(tasks.front()));
  }
  if (link_->can_restart_ranks()) {
    inside += fmt::format("{}process {}", inside.empty() ? "" : ", ", link_->process_of(lane.rank));
  }
  return inside.empty() ? text : fmt::format("{} ({})", text, inside);
}

void MeshCore::tell_ranks_to_stop() {
  link_->expect_ends();
  {
    base::MutexLock lock(mutex_);
    if (!std::exchange(told_to_stop_, true)) {
      for (int rank = 0; rank < world_size_; ++rank) {
        if (!link_->ring(rank).has_room()) continue;  // damaged, and not to be told
        frame::Record record;
        record.kind = frame::RecordKind::stop;
        record.lane = static_cast<std::uint32_t>(rank);
        link_->ring(rank).write(std::bit_cast<link::RecordBytes>(record));
        link_->ring(rank).publish();
      }
    }
  }
  link_->control().doorbell().ring_asleep(base::RankSet::first(world_size_));
}

void MeshCore::stop_ranks(base::Deadline deadline) {
  tell_ranks_to_stop();
  const std::vector<int> alive = link_->stop(deadline);
  if (!alive.empty()) {
    throw_error(failure(ErrorCode::deadline_exceeded,
                        "close: rank {} has not stopped; close again to wait longer", alive.front())
                    .with_rank(alive.front()));
  }
}

// After a failed start: ranks that run are told to stop; one that does not keeps what it uses.
void MeshCore::abandon_start() {
  try {
    stop_ranks(base::Deadline::after(1'000'000'000));
  } catch (const Error& error) {
    base::log_error("after a failed open: {}", error.what());
  }
  keeper_.reset();
  base::MutexLock lock(mutex_);
  base::store_release(life_, Life::closed);  // pairs: mesh_life
}

}  // namespace rankcast::detail
