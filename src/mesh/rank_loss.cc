// Death and restart of ranks (PROTOCOL P6), on links that can lose one.
//
// lose_rank runs once the rank is known to be gone: nothing of it writes any more, and the host is
// the writer of its lines. Starting and killing processes happens outside of the mutex.
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "mesh/core.h"

namespace rankcast::detail {

using base::failure;
using base::Status;
using base::throw_error;

namespace {

constexpr std::size_t kToldFlights = 4;  // in an error; last_dispatches has more

}  // namespace

void MeshCore::take_lost_ranks() {
  for (link::LostRank& lost : link_->take_lost()) lose_rank(lost.rank, std::move(lost.end));
}

void MeshCore::lose_rank(int rank, std::string end) {
  {
    base::MutexLock lock(mutex_);
    if (lost_.contains(rank)) return;
    const std::string flights = frame::describe_flights(
        frame::read_flights(runs_->flights(rank), kToldFlights), base::now_ns());
    if (!flights.empty()) end += fmt::format("; its last dispatches: {}", flights);
    base::log_error("rank {} {}", rank, end);
    lost_.add(rank, std::move(end));
    bump_epoch_locked();
    std::vector<frame::UndefinedRegion> undefined = frame::read_undefined(runs_->undefined(rank));
    const auto index = static_cast<std::size_t>(rank);
    const std::size_t known = undefined.size();
    for (RunState* state : runs_->in_flight()) {
      runs_->lose_lane(*state, rank, lost_.end(rank), *tables_[index], &undefined);
    }
    for (frame::UndefinedRegion& one : std::span(undefined).subspan(known)) {
      one.region.segment = heaps_[index]->segment_id({.segment = one.region.segment});
    }
    frame::write_undefined(runs_->undefined(rank), undefined);
    link_->retire_lost_rank(rank, runs_->published_end(rank));
    finish_ended_locked();
  }
  // The dead rank counted nothing down: whoever waits looks for itself.
  link_->control().doorbell().ring_everyone();
  link_->control().waiters().notify();
}

// A successor knows nothing: what was on the old rank is freed, and no record tells of it.
void MeshCore::forget_memory_of(int rank) {
  base::MutexLock lock(mutex_);
  const auto index = static_cast<std::size_t>(rank);
  for (const base::TableKey key : tables_[index]->keys()) free_locked(rank, key);
  pending_changes_[index].clear();
  frame::write_undefined(runs_->undefined(rank), {});
  return_memory_locked();
}

void MeshCore::restart_rank(int rank) {
  check_open();
  check_rank(rank, "restart_rank");
  check_not_orchestrating("restart_rank");
  if (!link_->can_restart_ranks()) {
    throw_error(failure(ErrorCode::unsupported,
                        "restart_rank: on link '{}' a rank is a part of this process; use link "
                        "'process'",
                        link_->name()));
  }
  const base::Deadline deadline = checked_deadline(options_.startup_timeout, "startup_timeout");
  const std::scoped_lock restarter(lifecycle_);
  check_open();
  lose_rank(rank, link_->kill(rank));
  forget_memory_of(rank);
  if (Status status = link_->restart(rank, deadline); !status.ok()) {
    status.text =
        fmt::format("restart_rank: {}; the rank is lost, and may be restarted again", status.text);
    throw_error(std::move(status).with_rank(rank));
  }
  base::MutexLock lock(mutex_);
  lost_.remove(rank);
  bump_epoch_locked();
}

}  // namespace rankcast::detail
