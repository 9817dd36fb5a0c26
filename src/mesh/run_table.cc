#include "mesh/run_table.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/fixed_text.h"
#include "memory/poison.h"

namespace rankcast::mesh {
namespace {

constexpr std::uint64_t kFrameSegmentBytes = std::uint64_t{1} << 20;
constexpr std::uint32_t kFirstFrameBytes = 8192;
// A side block that carried many table changes is not worth keeping.
constexpr std::uint64_t kKeptSideBytes = std::uint64_t{64} << 10;

}  // namespace

std::uint64_t RunTable::shared_bytes(int world_size, int slots) noexcept {
  return frame::SharedArea::bytes(world_size, static_cast<std::uint32_t>(slots));
}

RunTable::RunTable(link::Link& link, int slots)
    : link_(link), area_(link.shared(), link.world_size(), static_cast<std::uint32_t>(slots)) {
  const int world_size = link.world_size();
  for (int rank = 0; rank < world_size; ++rank) {
    heaps_.push_back(
        std::make_unique<LinkHeap>(link, rank, link::Access::owner_reads, kFrameSegmentBytes));
    temporaries_.push_back(
        std::make_unique<LinkHeap>(link, rank, link::Access::owner_writes, memory::kSegmentBytes));
  }
  published_ends_.resize(static_cast<std::size_t>(world_size));
  slots_.resize(static_cast<std::size_t>(slots));
  area_.create();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].record = area_.run_record(static_cast<std::uint32_t>(i));
    slots_[i].lanes.resize(static_cast<std::size_t>(world_size));
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size() - 1 - i));
  }
  in_flight_.reserve(slots_.size());
}

RunState* RunTable::take_state() {
  if (spare_states_.empty()) {
    ++base::scratch_growths;
    states_.push_back(std::make_unique<RunState>());
    spare_states_.reserve(states_.size());
    return states_.back().get();
  }
  RunState* state = spare_states_.back();
  spare_states_.pop_back();
  return state;
}

RunState* RunTable::try_take() {
  if (free_slots_.empty()) return nullptr;
  RunState* state = take_state();
  state->slot = free_slots_.back();
  free_slots_.pop_back();
  state->lanes.clear();
  state->held = true;
  ++reserved_;
  return state;
}

RunState* RunTable::take_empty() {
  RunState* state = take_state();
  state->lanes.clear();
  state->held = true;
  base::store_release(state->finished, true);  // pairs: run_finished
  return state;
}

void RunTable::give_back(RunState* state) noexcept {
  give_back_heaps(*state);
  free_slots_.push_back(state->slot);
  --reserved_;
  recycle(state);
}

void RunTable::recycle(RunState* state) noexcept {
  state->held = false;
  state->error = base::Status();
  state->error_told = false;
  state->is_transfer = false;
  state->libraries = nullptr;
  base::store_release(state->finished, false);  // pairs: run_finished
  spare_states_.push_back(state);
}

base::Result<frame::BlockRef> RunTable::make_room(Room& room, int rank, std::uint32_t bytes) {
  LinkHeap& heap = *heaps_[static_cast<std::size_t>(rank)];
  if (!room.used || room.block.bytes < bytes) {
    auto block = heap.allocate(std::max(kFirstFrameBytes, std::bit_ceil(bytes)));
    if (!block) return tl::unexpected(std::move(block).error());
    ++base::scratch_growths;
    if (room.used) heap.release(room.block);
    room = {*block, true};
  }
  return frame::BlockRef{room.block.offset, heap.segment_id(room.block), bytes};
}

base::Status RunTable::reserve_frame(RunState& state, RunLane& lane, std::uint32_t bytes) {
  auto ref = make_room(slots_[state.slot].lanes[static_cast<std::size_t>(lane.rank)].frame,
                       lane.rank, bytes);
  if (!ref) return std::move(ref).error();
  lane.frame = *ref;
  lane.frame_address = link_.segment(ref->segment) + ref->offset;
  return {};
}

base::Result<std::byte*> RunTable::reserve_side(RunState& state, int rank, std::uint32_t bytes,
                                                frame::BlockRef* side) {
  auto ref = make_room(slots_[state.slot].lanes[static_cast<std::size_t>(rank)].side, rank, bytes);
  if (!ref) return tl::unexpected(std::move(ref).error());
  *side = *ref;
  return link_.segment(ref->segment) + ref->offset;
}

base::Status RunTable::reserve_heap(RunLane& lane, std::uint64_t bytes) {
  LinkHeap& heap = *temporaries_[static_cast<std::size_t>(lane.rank)];
  auto block = heap.allocate(bytes);
  if (!block) {
    base::Status status = std::move(block).error();
    status.text = fmt::format("rank {}: no memory for {} bytes of temporaries: {}", lane.rank,
                              bytes, status.text);
    return std::move(status).with_rank(lane.rank);
  }
  lane.heap = *block;
  lane.heap_bytes = bytes;
  memory::unpoison(heap.address(*block), block->bytes);
  return {};
}

void RunTable::let_read_heap(const RunLane& lane, int reader) {
  link_.let_read(temporaries_[static_cast<std::size_t>(lane.rank)]->segment_id(lane.heap), reader);
}

void RunTable::give_back_heaps(RunState& state) noexcept {
  for (RunLane& lane : state.lanes) {
    if (lane.heap.bytes == 0) continue;
    LinkHeap& heap = *temporaries_[static_cast<std::size_t>(lane.rank)];
    memory::poison(heap.address(lane.heap), lane.heap.bytes);
    heap.release(std::exchange(lane.heap, memory::Block()));
  }
}

base::Status RunTable::reserve_outcomes(RunState& state, std::uint32_t task_count) {
  Slot& slot = slots_[state.slot];
  if (slot.outcomes.bytes >= task_count) return {};
  const std::uint32_t bytes = std::bit_ceil(std::max(4096u, task_count));
  auto id = link_.add_segment(bytes, -1, link::Access::all_write);
  if (!id) return std::move(id).error();
  ++base::scratch_growths;
  slot.outcomes = {0, *id, bytes};
  return {};
}

base::Status RunTable::reserve_groups(RunState& state, std::uint32_t group_count) {
  Slot& slot = slots_[state.slot];
  slot.groups = group_count;
  const std::uint64_t needed = group_count * sizeof(frame::GroupWords);
  if (slot.group_words.bytes < needed) {
    const auto bytes =
        static_cast<std::uint32_t>(std::bit_ceil(std::max<std::uint64_t>(4096, needed)));
    auto id = link_.add_segment(bytes, -1, link::Access::all_write);
    if (!id) return std::move(id).error();
    ++base::scratch_growths;
    slot.group_words = {0, *id, bytes};
  }
  for (frame::GroupWords& words : group_words(slot)) new (&words) frame::GroupWords();
  return {};
}

std::span<frame::GroupWords> RunTable::group_words(const Slot& slot) const noexcept {
  return {reinterpret_cast<frame::GroupWords*>(link_.segment(slot.group_words.segment) +
                                               slot.group_words.offset),
          slot.groups};
}

void RunTable::publish(RunState& state) noexcept {
  Slot& slot = slots_[state.slot];
  frame::RunRecord& record = *slot.record;
  record.run = state.run;
  record.outcomes = slot.outcomes;
  record.group_words = slot.group_words;
  record.groups = slot.groups;
  slot.tasks = 0;
  for (const RunLane& lane : state.lanes) {
    slot.tasks += lane.tasks;
    published_ends_[static_cast<std::size_t>(lane.rank)] = lane.end;
    frame::HeapBlock& heap = frame::lane_reports(&record)[lane.rank].heap;
    heap = {};
    if (lane.heap.bytes == 0) continue;
    heap = {lane.heap.offset, lane.heap.bytes,
            temporaries_[static_cast<std::size_t>(lane.rank)]->segment_id(lane.heap), 0};
  }
  record.tasks = slot.tasks;
  base::store_seq_cst(record.cancel, 0u);
  record.lanes_left.arm(state.run, static_cast<std::uint32_t>(state.lanes.size()));
  --reserved_;
  state.in_flight = true;
  in_flight_.push_back(&state);
}

void RunTable::cancel(const RunState& state) noexcept {
  const Slot& slot = slots_[state.slot];
  base::store_seq_cst(slot.record->cancel, 1u);
  for (frame::GroupWords& words : group_words(slot)) frame::give_up(words);
}

void RunTable::lose_lane(RunState& state, int rank, const std::string& end,
                         const memory::BufferTable& table,
                         std::vector<frame::UndefinedRegion>* undefined) {
  const base::TimelineValue reached = link_.timeline(rank).load();
  for (const RunLane& lane : state.lanes) {
    if (lane.rank != rank || reached >= lane.end) continue;
    Slot& slot = slots_[state.slot];
    const std::span tasks = frame::tasks_of(lane.frame_address);
    const std::span<std::byte> outcomes = outcomes_of(slot);
    const std::size_t retired = reached.run() == state.run ? reached.tasks() : 0;
    for (const frame::TaskRecord& task : tasks.subspan(std::min(retired, tasks.size()))) {
      outcomes[task.task] = static_cast<std::byte>(frame::Outcome::rank_lost);
      add_undefined(state, lane, task, table, undefined);
      if (task.group != frame::kNone) {
        const frame::GroupRecord& group = frame::groups_of(lane.frame_address)[task.group];
        frame::give_up(group_words(slot)[group.group]);
      }
    }
    frame::LaneReport& report = frame::lane_reports(slot.record)[rank];
    report.run = state.run;
    report.entry_ns = report.exit_ns = base::now_ns();
    report.error_task = retired < tasks.size() ? tasks[retired].task : frame::kNone;
    report.error_code = static_cast<std::uint8_t>(ErrorCode::rank_lost);
    report.error_argument = -1;
    base::copy_text(fmt::format("rank {} {}", rank, end), report.error_text);
  }
}

// What the task should have written, if the buffer is still there.
void RunTable::add_undefined(const RunState& state, const RunLane& lane,
                             const frame::TaskRecord& task, const memory::BufferTable& table,
                             std::vector<frame::UndefinedRegion>* undefined) const {
  const std::span layouts = frame::layouts_of(lane.frame_address);
  for (const frame::ArgumentRecord& argument :
       frame::arguments_of(lane.frame_address)
           .subspan(task.arguments.first, task.arguments.count)) {
    const bool written = argument.tag == Tag::out || argument.tag == Tag::inout;
    if (!written || argument.place != frame::Place::buffer) continue;
    const memory::BufferRow* row = table.find({argument.slot, argument.generation});
    if (row == nullptr) continue;
    undefined->push_back({.region = {.segment = row->block.segment,
                                     .offset = row->block.offset + argument.offset,
                                     .layout = layouts[argument.layout]},
                          .run = state.run});
  }
}

std::span<std::byte> RunTable::outcomes_of(const Slot& slot) noexcept {
  return {link_.segment(slot.outcomes.segment) + slot.outcomes.offset, slot.tasks};
}

// What the lane says, or what is wrong with it.
frame::LaneEnd RunTable::end_of(const RunState& state, const RunLane& lane, std::int64_t now_ns) {
  const Slot& slot = slots_[state.slot];
  const base::TimelineValue reached = link_.timeline(lane.rank).peek();
  const base::TimelineValue published = published_end(lane.rank);
  frame::LaneEnd end = frame::read_report(frame::lane_reports(slot.record)[lane.rank],
                                          {.run = state.run,
                                           .rank = lane.rank,
                                           .begin_ns = state.submit_begin_ns,
                                           .now_ns = now_ns,
                                           .tasks = frame::tasks_of(lane.frame_address),
                                           .outcomes = outcomes_of(slot)});
  if (reached > published) [[unlikely]] {
    end.error_task = frame::kNone;
    end.error =
        base::failure(ErrorCode::internal,
                      "rank {} says that it has done {} tasks of run {}, but it was last "
                      "given run {} with {}",
                      lane.rank, reached.tasks(), reached.run(), published.run(), published.tasks())
            .with_rank(lane.rank);
  }
  if (end.error.code == ErrorCode::internal && end.error_task == frame::kNone) [[unlikely]] {
    const base::Status told = link::report_of(link_.control().channel(lane.rank), lane.rank);
    if (!told.ok()) end.error.text += "; it told " + told.text;
  }
  return end;
}

void RunTable::finish(RunState& state) {
  RC_CHECK(state.in_flight);
  Slot& slot = slots_[state.slot];
  const std::int64_t now_ns = base::now_ns();
  std::uint32_t first_task = 0;
  for (RunLane& lane : state.lanes) {
    frame::LaneEnd end = end_of(state, lane, now_ns);
    lane.entry_ns = end.entry_ns;
    lane.exit_ns = end.exit_ns;
    if (end.error.ok()) [[likely]] {
      continue;
    }
    // What a cancel kept from starting says less than what went wrong by itself.
    const bool by_cancel = end.error.code == ErrorCode::cancelled;
    const bool so_far = state.error.code == ErrorCode::cancelled;
    if (state.error.ok() || (so_far && !by_cancel) ||
        (so_far == by_cancel && end.error_task < first_task)) {
      first_task = end.error_task;
      state.error = std::move(end.error);
    }
  }
  if (!state.error.ok()) [[unlikely]] {
    if (state.libraries == nullptr) {
      const bool lost = state.error.code == ErrorCode::rank_lost;
      state.error.text =
          fmt::format("run {} failed: {}{}", state.run, state.error.text,
                      lost ? "; Mesh::restart_rank puts a new, empty rank in its place" : "");
    }
    std::ranges::fill(outcomes_of(slot), std::byte{0});
  }
  give_back_heaps(state);
  for (const RunLane& lane : state.lanes) {
    Room& side = slot.lanes[static_cast<std::size_t>(lane.rank)].side;
    if (side.used && side.block.bytes > kKeptSideBytes) {
      heaps_[static_cast<std::size_t>(lane.rank)]->release(side.block);
      side = Room();
    }
  }
  free_slots_.push_back(state.slot);
  state.in_flight = false;
  in_flight_.erase(std::find(in_flight_.begin(), in_flight_.end(), &state));
  base::store_release(state.finished, true);  // pairs: run_finished
}

bool RunTable::drop(RunState* state) noexcept {
  state->held = false;
  if (state->in_flight) return false;
  recycle(state);
  return true;
}

std::uint64_t RunTable::oldest_run(std::uint64_t next) const noexcept {
  std::uint64_t oldest = next;
  for (const RunState* state : in_flight_) oldest = std::min(oldest, state->run);
  return oldest;
}

}  // namespace rankcast::mesh
