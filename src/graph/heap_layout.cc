#include "graph/heap_layout.h"

#include <algorithm>
#include <utility>

namespace rankcast::graph {
namespace {

// Calls `visit(task, argument, record)` for every argument that names a temporary, in the order of
// tasks.
template <class Visit>
void for_each_use(RunDraft& draft, Visit&& visit) {
  for (std::uint32_t task = 0; task < draft.task_count(); ++task) {
    const TaskPlace& place = draft.places[task];
    frame::FrameDraft& lane = draft.lanes[static_cast<std::size_t>(place.rank)];
    const frame::Range range = lane.tasks[place.ordinal].arguments;
    for (std::uint32_t i = 0; i < range.count; ++i) {
      frame::ArgumentRecord& record = lane.arguments[range.first + i];
      if (record.place == frame::Place::heap) visit(task, i, record);
    }
  }
}

}  // namespace

std::optional<HeapLayout::Unwritten> HeapLayout::lay_out(RunDraft& draft) {
  draft.overlays.clear();
  draft.used.for_each(
      [&](int rank) { draft.lanes[static_cast<std::size_t>(rank)].heap_bytes = 0; });
  if (draft.temporaries.empty()) return std::nullopt;
  for_each_use(draft, [&](std::uint32_t, std::uint32_t, frame::ArgumentRecord& record) {
    record.offset -= draft.temporaries[record.slot].offset;
  });
  if (auto unwritten = find_lives(draft)) return unwritten;

  blocks_.resize(draft.lanes.size());
  for (HeapBlock& block : blocks_) {
    block.gaps.clear();
    block.bytes = 0;
  }
  std::size_t dead = 0;
  for (const std::uint32_t number : births_) {
    const std::uint32_t now = draft.temporaries[number].first_task;
    for (; draft.temporaries[deaths_[dead]].last_task < now; ++dead) {
      release(draft.temporaries[deaths_[dead]], deaths_[dead]);
    }
    place(draft, number);
  }
  for (std::size_t rank = 0; rank < blocks_.size(); ++rank) {
    draft.lanes[rank].heap_bytes = blocks_[rank].bytes;
  }
  for_each_use(draft, [&](std::uint32_t, std::uint32_t, frame::ArgumentRecord& record) {
    record.offset += draft.temporaries[record.slot].offset;
  });
  return std::nullopt;
}

std::optional<HeapLayout::Unwritten> HeapLayout::find_lives(RunDraft& draft) {
  births_.clear();
  deaths_.clear();
  for (Temporary& temporary : draft.temporaries) {
    temporary.first_task = temporary.last_task = frame::kNone;
    temporary.offset = 0;
    temporary.over = frame::kNone;
  }
  std::optional<Unwritten> unwritten;
  for_each_use(draft,
               [&](std::uint32_t task, std::uint32_t argument, frame::ArgumentRecord& record) {
                 Temporary& temporary = draft.temporaries[record.slot];
                 temporary.last_task = task;
                 if (temporary.first_task != frame::kNone) return;
                 temporary.first_task = task;
                 births_.push(record.slot);
                 const bool reads = record.tag == Tag::in || record.tag == Tag::inout;
                 if (reads && !unwritten) unwritten = {task, argument};
               });
  std::ranges::copy(births_, deaths_.extend(births_.size()));
  std::ranges::sort(deaths_, {},
                    [&](std::uint32_t number) { return draft.temporaries[number].last_task; });
  return unwritten;
}

// In the smallest row of gaps without a break that holds it; the block grows where none does, by
// what the gaps at its end lack.
void HeapLayout::place(RunDraft& draft, std::uint32_t number) {
  Temporary& temporary = draft.temporaries[number];
  HeapBlock& block = blocks_[static_cast<std::size_t>(temporary.rank)];
  std::vector<Gap>& gaps = block.gaps;
  std::size_t best = gaps.size();
  std::uint64_t best_bytes = 0;
  std::size_t at_end = gaps.size();
  for (std::size_t first = 0, next = 0; first < gaps.size(); first = next) {
    next = first + 1;
    while (next < gaps.size() && gaps[next].begin == gaps[next - 1].end) ++next;
    const std::uint64_t bytes = gaps[next - 1].end - gaps[first].begin;
    if (bytes >= temporary.bytes && (best == gaps.size() || bytes < best_bytes)) {
      best = first;
      best_bytes = bytes;
    }
    if (gaps[next - 1].end == block.bytes) at_end = first;
  }
  if (best == gaps.size()) {
    best = at_end;
    block.bytes = (best == gaps.size() ? block.bytes : gaps[best].begin) + temporary.bytes;
    temporary.offset = block.bytes - temporary.bytes;
  } else {
    temporary.offset = gaps[best].begin;
  }
  const std::uint64_t end = temporary.offset + temporary.bytes;
  std::size_t past = best;
  for (; past < gaps.size() && gaps[past].begin < end; ++past) {
    draft.overlays.push({gaps[past].last, temporary.over});
    temporary.over = static_cast<std::uint32_t>(draft.overlays.size() - 1);
    if (gaps[past].end > end) {
      gaps[past].begin = end;
      break;
    }
  }
  gaps.erase(gaps.begin() + static_cast<std::ptrdiff_t>(best),
             gaps.begin() + static_cast<std::ptrdiff_t>(past));
}

void HeapLayout::release(const Temporary& temporary, std::uint32_t number) {
  std::vector<Gap>& gaps = blocks_[static_cast<std::size_t>(temporary.rank)].gaps;
  const auto where = std::ranges::lower_bound(gaps, temporary.offset, {}, &Gap::begin);
  gaps.insert(where, {temporary.offset, temporary.offset + temporary.bytes, number});
}

}  // namespace rankcast::graph
