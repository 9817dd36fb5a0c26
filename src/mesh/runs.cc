// What becomes of a published run: waiting for it, finishing it, the handle, and the keeper's work.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/process.h"
#include "mesh/core.h"

namespace rankcast::detail {

using base::failure;
using base::throw_error;

namespace {

void log_dropped(const std::string& error) noexcept {
  base::log_error("{} (nobody waited for it)", error);
}

}  // namespace

bool MeshCore::ended(const RunState& state) const noexcept {
  return state.lanes_ended(
      [this](int rank) -> const base::Timeline& { return link_->timeline(rank); });
}

void MeshCore::finish_locked(RunState& state) {
  runs_->finish(state);
  std::int64_t last_exit_ns = state.submit_begin_ns;
  for (const RunLane& lane : state.lanes) last_exit_ns = std::max(last_exit_ns, lane.exit_ns);
  if (!state.is_transfer) {
    stores_.add(state.store_kind, state.frame_bytes, last_exit_ns - state.submit_begin_ns);
  }
  if (!state.held) {
    if (!state.error.ok()) dropped_errors_.push_back(std::move(state.error.text));
    runs_->recycle(&state);
  }
}

// Returns how many there were.
std::size_t MeshCore::finish_ended_locked() {
  std::size_t count = 0;
  std::vector<RunState*>& in_flight = runs_->in_flight();
  for (std::size_t i = in_flight.size(); i-- > 0;) {
    if (!ended(*in_flight[i])) continue;
    finish_locked(*in_flight[i]);
    ++count;
  }
  if (count != 0) return_memory_locked();
  return count;
}

bool MeshCore::wait(RunState& state, base::Deadline deadline) {
  if (!state.is_finished()) {
    const auto ready = [&]() noexcept { return state.is_finished() || ended(state); };
    if (link_->control().waiters().wait(ready, link_->spin(), deadline) != base::WaitResult::ready)
      return false;
    finish_if_ended(state);
  }
  if (!state.error.ok()) [[unlikely]] {
    fail_wait(state);
  }
  return true;
}

void MeshCore::wait_and_drop(RunState* state) {
  const auto give_state_back = [this](RunState* used) { drop(used); };
  const std::unique_ptr<RunState, decltype(give_state_back)> held(state, give_state_back);
  wait(*held, base::Deadline::never());
}

void MeshCore::fail_wait(RunState& state) {
  {
    base::MutexLock lock(mutex_);
    state.error_told = true;
  }
  ErrorFields fields;
  fields.dispatch_id = state.run;
  if (state.error.rank >= 0) fields.rank = state.error.rank;
  if (state.error.argument >= 0) fields.argument = state.error.argument;
  throw Error(state.error.code, state.error.text, fields);
}

// Whoever finishes a run wakes the others: a submit that waits for a slot, a second thread that
// waits for this run.
void MeshCore::finish_if_ended(const RunState& state) {
  std::size_t finished = 0;
  if (!state.is_finished()) {
    base::MutexLock lock(mutex_);
    finished = finish_ended_locked();
  }
  if (finished != 0) link_->control().waiters().notify();
}

bool MeshCore::done(const RunState& state) {
  if (state.is_finished()) return true;
  if (!ended(state)) return false;
  finish_if_ended(state);
  return true;
}

void MeshCore::cancel(const RunState& state) {
  {
    base::MutexLock lock(mutex_);
    if (!state.in_flight) return;
    runs_->cancel(state);
  }
  link_->control().doorbell().ring_everyone();
}

RunReport MeshCore::report(const RunState& state) {
  if (!done(state)) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "report of run {} before it is done; wait for it first", state.run));
  }
  const auto since_begin = [&](std::int64_t ns) {
    return static_cast<double>(ns - state.submit_begin_ns) * 1e-3;
  };
  RunReport report;
  report.dispatch_id = state.run;
  report.submit_us = since_begin(state.submit_end_ns);
  report.total_us = report.submit_us;
  double first_entry = 0;
  double last_entry = 0;
  for (const RunLane& lane : state.lanes) {
    const RankReport& rank = report.ranks.emplace_back(RankReport{
        lane.rank, since_begin(lane.entry_ns), since_begin(lane.exit_ns),
        static_cast<double>(lane.exit_ns - lane.entry_ns) * 1e-3, lane.tasks, lane.heap_bytes});
    first_entry = report.ranks.size() == 1 ? rank.entry_us : std::min(first_entry, rank.entry_us);
    last_entry = std::max(last_entry, rank.entry_us);
    report.total_us =
        report.ranks.size() == 1 ? rank.exit_us : std::max(report.total_us, rank.exit_us);
  }
  report.entry_spread_us = last_entry - first_entry;
  return report;
}

void MeshCore::drop(RunState* state) noexcept {
  bool in_flight = false;
  std::string error;
  {
    base::MutexLock lock(mutex_);
    if (state->is_finished() && !state->error_told) error = std::move(state->error.text);
    in_flight = !runs_->drop(state);
  }
  if (!error.empty()) log_dropped(error);
  if (in_flight) ask_keeper();
}

bool MeshCore::is_forked() const noexcept { return process_ != base::process_generation(); }

// ---- The keeper's work (P11)
// --------------------------------------------------------------------------------------

// For what no thread waits for: memory freed while runs are in flight, and dropped runs. Asked
// first, looked after: a rank that retires in between either sees the wish or is seen here.
void MeshCore::ask_keeper() {
  link_->keeper().want();
  keep_house();
}

bool MeshCore::keep_house() {
  std::size_t finished = 0;
  bool left = false;
  std::vector<std::string> errors;
  {
    base::MutexLock lock(mutex_);
    finished = finish_ended_locked();
    return_memory_locked();
    errors.swap(dropped_errors_);
    left =
        deferred_.size() != 0 ||
        std::ranges::any_of(runs_->in_flight(), [](const RunState* state) { return !state->held; });
  }
  if (finished != 0) link_->control().waiters().notify();
  for (const std::string& error : errors) log_dropped(error);
  return left;
}

}  // namespace rankcast::detail

namespace rankcast {

Run::Run() noexcept = default;

Run::Run(std::shared_ptr<detail::MeshCore> mesh, detail::RunState* state) noexcept
    : mesh_(std::move(mesh)), state_(state) {}

Run::Run(Run&& other) noexcept
    : mesh_(std::move(other.mesh_)), state_(std::exchange(other.state_, nullptr)) {}

Run& Run::operator=(Run&& other) noexcept {
  std::swap(mesh_, other.mesh_);
  std::swap(state_, other.state_);
  return *this;
}

Run::~Run() {
  if (state_ == nullptr) return;
  if (mesh_->is_forked()) {
    leak(std::move(mesh_));
  } else {
    mesh_->drop(state_);
  }
}

namespace {

detail::RunState& checked(const detail::MeshCore* mesh, detail::RunState* state, const char* call) {
  if (state == nullptr) {
    base::throw_error(base::failure(ErrorCode::invalid_argument,
                                    "{}: the run is empty; call it on what Mesh::submit returned",
                                    call));
  }
  if (mesh->is_forked()) {
    base::throw_error(base::failure(
        ErrorCode::closed, "{}: the run belongs to the parent of this forked process", call));
  }
  return *state;
}

}  // namespace

std::uint64_t Run::dispatch_id() const { return checked(mesh_.get(), state_, "dispatch_id").run; }

// Checked first: an empty run has no mesh to call.
bool Run::done() const {
  const detail::RunState& state = checked(mesh_.get(), state_, "done");
  return mesh_->done(state);
}

void Run::wait() const {
  detail::RunState& state = checked(mesh_.get(), state_, "wait");
  mesh_->wait(state, base::Deadline::never());
}

bool Run::wait_for(std::chrono::duration<double> timeout) const {
  detail::RunState& state = checked(mesh_.get(), state_, "wait_for");
  return mesh_->wait(state, detail::checked_deadline(timeout, "wait_for: the timeout"));
}

void Run::cancel() const {
  const detail::RunState& state = checked(mesh_.get(), state_, "cancel");
  mesh_->cancel(state);
}

RunReport Run::report() const {
  const detail::RunState& state = checked(mesh_.get(), state_, "report");
  return mesh_->report(state);
}

}  // namespace rankcast
