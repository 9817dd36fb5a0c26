#include "mesh/run_order.h"

#include <algorithm>

#include "base/timeline.h"
#include "frame/report.h"

namespace rankcast::mesh {
namespace {

bool writes(const frame::ArgumentRecord& argument) noexcept {
  return argument.place == frame::Place::buffer &&
         (argument.tag == Tag::out || argument.tag == Tag::inout);
}

}  // namespace

RunOrder::RunOrder(link::Link& link)
    : link_(link),
      waits_(static_cast<std::size_t>(link.world_size())),
      copies_(static_cast<std::size_t>(link.world_size())) {}

void RunOrder::find_waits(const graph::RunDraft& draft,
                          std::span<detail::RunState* const> in_flight) {
  if (any_waits_) {
    for (auto& waits : waits_) waits.clear();
    any_waits_ = false;
  }
  if (under_way_ != 0) forget_retired();
  if (under_way_ == 0 && draft.foreign.empty()) [[likely]] {
    return;
  }
  for (const graph::TaskPlace& place : draft.places) {
    const frame::FrameDraft& lane = draft.lane(place.rank);
    wait_for_copies(place.rank, lane.tasks[place.ordinal], place.ordinal, lane);
    if (place.foreign == frame::kNone) continue;
    const graph::ForeignSource& source = draft.foreign[place.foreign];
    if (source.generation == 0) continue;
    const std::uint64_t value = last_writer(source, in_flight);
    if (value == 0) continue;
    waits_[static_cast<std::size_t>(place.rank)].push(
        {value, static_cast<std::uint32_t>(source.rank), place.ordinal});
    any_waits_ = true;
  }
}

// Where the source's lane has passed the last run that writes the buffer; 0: none in flight does.
std::uint64_t RunOrder::last_writer(const graph::ForeignSource& source,
                                    std::span<detail::RunState* const> in_flight) const noexcept {
  std::uint64_t last = 0;
  for (const detail::RunState* state : in_flight) {
    const auto lane = std::ranges::find(state->lanes, source.rank, &detail::RunLane::rank);
    if (lane == state->lanes.end() || lane->end.bits <= last) continue;
    const bool written = std::ranges::any_of(
        frame::arguments_of(lane->frame_address), [&](const frame::ArgumentRecord& argument) {
          return writes(argument) && argument.slot == source.slot;
        });
    if (written) last = lane->end.bits;
  }
  return last;
}

void RunOrder::forget_retired() {
  under_way_ = 0;
  for (std::vector<CopyOut>& copies : copies_) {
    std::erase_if(copies, [&](const CopyOut& copy) {
      return link_.timeline(copy.lane).reached(base::TimelineValue{copy.end});
    });
    under_way_ += copies.size();
  }
}

void RunOrder::wait_for_copies(int rank, const frame::TaskRecord& task, std::uint32_t ordinal,
                               const frame::FrameDraft& lane) {
  for (const CopyOut& copy : copies_[static_cast<std::size_t>(rank)]) {
    const bool written = std::ranges::any_of(
        lane.arguments.span().subspan(task.arguments.first, task.arguments.count),
        [&](const frame::ArgumentRecord& argument) {
          return writes(argument) && argument.slot == copy.slot;
        });
    if (!written) continue;
    waits_[static_cast<std::size_t>(rank)].push(
        {copy.end, static_cast<std::uint32_t>(copy.lane), ordinal});
    any_waits_ = true;
  }
}

void RunOrder::published(const graph::RunDraft& draft, std::uint64_t run) {
  if (draft.foreign.empty()) return;
  for (const graph::TaskPlace& place : draft.places) {
    if (place.foreign == frame::kNone) continue;
    const graph::ForeignSource& source = draft.foreign[place.foreign];
    if (source.generation == 0) continue;  // a temporary: no other run touches it
    copies_[static_cast<std::size_t>(source.rank)].push_back(
        {base::TimelineValue::make(run, place.ordinal + 1).bits, source.slot, place.rank});
    ++under_way_;
  }
}

}  // namespace rankcast::mesh
