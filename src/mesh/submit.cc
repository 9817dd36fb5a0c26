// The path of a dispatch on the host: orchestrate and check, reserve, write frames, then under the
// mutex the last check and publication (PROTOCOL P1, P3), then the bell.
#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/fault_point.h"
#include "frame/encode.h"
#include "mesh/core.h"

namespace rankcast::detail {
namespace {

// The mesh whose orchestration function this thread runs.
thread_local const MeshCore* orchestrating = nullptr;

class OrchestratingScope {
 public:
  explicit OrchestratingScope(const MeshCore* mesh) noexcept
      : outer_(std::exchange(orchestrating, mesh)) {}
  ~OrchestratingScope() { orchestrating = outer_; }
  OrchestratingScope(const OrchestratingScope&) = delete;
  OrchestratingScope& operator=(const OrchestratingScope&) = delete;

 private:
  const MeshCore* outer_;
};

}  // namespace

using base::failure;
using base::Status;
using base::throw_error;

/// An orchestration that no other submit uses, given back at the end: one that has run the program
/// before, if there is one, since it repeats what it did then.
class MeshCore::OrchestrationLease {
 public:
  /// Programs that take turns keep an orchestration each, up to this many.
  static constexpr std::size_t kKept = 16;

  OrchestrationLease(MeshCore& core, const Program& program) : core_(core) {
    {
      base::MutexLock lock(core.mutex_);
      auto& kept = core.orchestrations_;  // the one given back last is the last
      const auto known = std::ranges::find(kept.rbegin(), kept.rend(), program.name(),
                                           [](const auto& one) { return one->program_name(); });
      if (known != kept.rend() || kept.size() >= kKept) {
        const auto taken = known != kept.rend() ? std::prev(known.base()) : kept.begin();
        orchestration_ = std::move(*taken);
        kept.erase(taken);
        return;
      }
    }
    ++base::scratch_growths;
    orchestration_ = std::make_unique<OrchestratorImpl>(core.view_);
  }
  ~OrchestrationLease() {
    base::MutexLock lock(core_.mutex_);
    core_.orchestrations_.push_back(std::move(orchestration_));
  }
  OrchestrationLease(const OrchestrationLease&) = delete;
  OrchestrationLease& operator=(const OrchestrationLease&) = delete;

  OrchestratorImpl* operator->() const noexcept { return orchestration_.get(); }

 private:
  MeshCore& core_;
  std::unique_ptr<OrchestratorImpl> orchestration_;
};

void MeshCore::check_not_orchestrating(const char* call) const {
  if (orchestrating == this) {
    throw_error(failure(
        ErrorCode::invalid_argument,
        "{} inside an orchestration function of the same mesh; call it before or after the submit",
        call));
  }
}

Run MeshCore::submit(const Program& program, std::span<const Argument> arguments) {
  const std::int64_t begin_ns = base::now_ns();
  const std::uint64_t growths = base::scratch_growths;
  check_open();
  check_not_orchestrating("submit");
  OrchestrationLease orchestration(*this, program);
  // Handles are checked at this epoch: publication compares.
  const std::uint64_t epoch = base::load_acquire(epoch_);  // pairs: mesh_epoch
  {
    OrchestratingScope scope(this);
    orchestration->run(program, arguments, epoch);
  }
  const graph::RunDraft& draft = orchestration->draft();
  RunState* state = reserve(draft, begin_ns);
  if (!draft.used.empty()) {
    write_frames(draft, *state);
    publish(
        draft, *state, epoch, [&] { return orchestration->recheck_locked(); },
        [&](MeshStats& counters) {
          ++counters.submits;
          counters.descriptors_built += orchestration->descriptors_built();
          counters.table_visits += orchestration->table_visits();
          counters.arena_growths += base::scratch_growths - growths;
        });
  }
  state->submit_end_ns = base::now_ns();
  return Run(shared_from_this(), state);
}

// Takes a slot with room for everything on all ranks at once, or waits holding nothing (P12).
RunState* MeshCore::reserve(const graph::RunDraft& draft, std::int64_t begin_ns) {
  RunState* state = nullptr;
  Status lost;
  const auto try_take = [&]() noexcept {
    base::MutexLock lock(mutex_);
    if (base::load_acquire(life_) != Life::open) return true;  // pairs: mesh_life
    lost = check_lost_locked(draft);
    if (!lost.ok()) return true;
    if (draft.used.empty()) {
      state = runs_->take_empty();
      state->run = ++last_run_;
      return true;
    }
    state = runs_->try_take();
    if (state == nullptr && finish_ended_locked() != 0) state = runs_->try_take();
    return state != nullptr;
  };
  if (!try_take()) {
    link_->control().waiters().wait(try_take, link_->spin(), base::Deadline::never());
  }
  if (state == nullptr) {
    check_open();
    throw_error(std::move(lost));
  }
  state->submit_begin_ns = begin_ns;
  state->frame_bytes = 0;
  if (draft.used.empty()) return state;

  base::MutexLock lock(mutex_);
  Status status;
  draft.used.for_each([&](int rank) {
    mutex_.assert_held();  // by the lock above: the analysis does not look into lambdas
    if (!status.ok()) return;
    const frame::FrameDraft& lane_draft = draft.lane(rank);
    auto bytes = frame::frame_bytes(lane_draft, draft.layouts.size());
    if (!bytes) {
      status = std::move(bytes).error().with_rank(rank);
      return;
    }
    RunLane lane;
    lane.rank = rank;
    lane.tasks = static_cast<std::uint32_t>(lane_draft.tasks.size());
    status = RANKCAST_FAULT_POINT("mesh.reserve_frame")
                 ? failure(ErrorCode::out_of_memory, "made to fail at the frame").with_rank(rank)
                 : runs_->reserve_frame(*state, lane, *bytes);
    if (status.ok() && lane_draft.heap_bytes != 0) {
      status = RANKCAST_FAULT_POINT("mesh.reserve_heap")
                   ? failure(ErrorCode::out_of_memory, "made to fail at the heap").with_rank(rank)
                   : runs_->reserve_heap(lane, lane_draft.heap_bytes);
    }
    state->lanes.push(lane);
    state->frame_bytes += *bytes;
  });
  for (const graph::TaskPlace& place : draft.places) {
    if (!status.ok() || draft.foreign.empty()) break;
    if (place.foreign == frame::kNone) continue;
    const graph::ForeignSource& source = draft.foreign[place.foreign];
    if (source.generation != 0) continue;
    runs_->let_read_heap(*std::ranges::find(state->lanes, source.rank, &RunLane::rank), place.rank);
  }
  if (status.ok()) status = runs_->reserve_outcomes(*state, draft.task_count());
  if (status.ok()) status = runs_->reserve_groups(*state, draft.group_count);
  if (!status.ok()) {
    runs_->give_back(state);
    lock.unlock();
    link_->control().waiters().notify();
    throw_error(std::move(status));
  }
  state->store_kind = stores_.next();
  return state;
}

void MeshCore::write_frames(const graph::RunDraft& draft, RunState& state) noexcept {
  for (const RunLane& lane : state.lanes) {
    frame::write_frame(lane.frame_address, draft.lane(lane.rank), draft.layouts.span(), lane.rank,
                       world_size_, state.store_kind);
  }
  base::store_fence(state.store_kind);
}

void MeshCore::publish(const graph::RunDraft& draft, RunState& state, std::uint64_t epoch,
                       base::FunctionRef<Status()> recheck,
                       base::FunctionRef<void(MeshStats&)> count) {
  bool wake_keeper = false;
  {
    base::MutexLock lock(mutex_);
    Status status = check_lost_locked(draft);
    if (status.ok() &&
        base::load_relaxed(epoch_) != epoch) {  // relaxed: written under the mutex, which is held
      status = recheck();
    }
    if (status.ok()) status = publish_locked(draft, state);
    if (!status.ok()) {
      runs_->give_back(&state);
      lock.unlock();
      link_->control().waiters().notify();
      throw_error(std::move(status));
    }
    count(counters_);
    wake_keeper = watchdog_.wake();
  }
  if (link_->control().doorbell().ring_asleep(draft.used) != 0) {
    base::fetch_add_relaxed(wakes_, std::uint64_t{1});  // relaxed: a counter for people
  }
  if (wake_keeper) [[unlikely]] {
    link_->keeper().notify();
  }
}

// A copy names the rank that it reads from, too.
Status MeshCore::check_lost_locked(const graph::RunDraft& draft) const {
  Status status = lost_.check(draft.used);
  return status.ok() ? lost_.check(draft.sources) : status;
}

// Everything that can fail comes first; then the records, then all tails.
Status MeshCore::publish_locked(const graph::RunDraft& draft, RunState& state) {
  if (last_run_ == base::TimelineValue::kMaxRun) {
    return failure(ErrorCode::unsupported,
                   "the mesh has used all {} run numbers; close it and open another", last_run_);
  }
  order_->find_waits(draft, runs_->in_flight());
  side_blocks_.clear();
  for (RunLane& lane : state.lanes) {
    // Rings are longer than there can be runs in flight.
    if (!link_->ring(lane.rank).has_room()) [[unlikely]] {
      return failure(ErrorCode::internal, "the ring of rank {} has no room: its head is damaged",
                     lane.rank)
          .with_rank(lane.rank);
    }
    frame::BlockRef* side = side_blocks_.extend(1);
    *side = frame::BlockRef();
    const mesh::TableChanges& changes = pending_changes_[static_cast<std::size_t>(lane.rank)];
    const std::span<const frame::RunWait> waits = order_->waits(lane.rank);
    if (changes.empty() && waits.empty() && state.libraries == nullptr) continue;
    frame::SideDraft beside;
    if (state.libraries != nullptr) beside = *state.libraries;
    beside.changes = changes.span();
    beside.waits = waits;
    auto bytes = frame::side_bytes(beside);
    if (!bytes) return std::move(bytes).error();
    auto address = runs_->reserve_side(state, lane.rank, *bytes, side);
    if (!address) return std::move(address).error();
    frame::write_side(*address, beside);
    lane.side_address = *address;
  }

  state.run = ++last_run_;
  for (std::size_t i = 0; i < state.lanes.size(); ++i) {
    RunLane& lane = state.lanes[i];
    lane.end = base::TimelineValue::make(state.run, lane.tasks);
    pending_changes_[static_cast<std::size_t>(lane.rank)].clear();
    frame::Record record;
    record.run = state.run;
    record.frame = lane.frame;
    record.side = side_blocks_[i];
    record.run_record = state.slot;
    record.lane = static_cast<std::uint32_t>(lane.rank);
    record.tasks = lane.tasks;
    if (state.libraries != nullptr) record.kind = frame::RecordKind::load_kernels;
    link_->ring(lane.rank).write(std::bit_cast<link::RecordBytes>(record));
    counters_.bytes_written += sizeof(record) + lane.frame.bytes + record.side.bytes;
  }
  runs_->publish(state);
  order_->published(draft, state.run);
  for (const RunLane& lane : state.lanes) link_->ring(lane.rank).publish();
  return {};
}

}  // namespace rankcast::detail
