#include "graph/task_order.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "tensor/overlap.h"

namespace rankcast::graph {
namespace {

constexpr std::uint32_t kReads = 1;  // bits of a Tag
constexpr std::uint32_t kWrites = 2;

// Set in the key of a temporary: no slot of a rank's table.
constexpr std::int32_t kTemporary = 1 << 30;

// Calls `visit(task, argument, record, rank, slot, offset)` for every argument that has hazards, in
// the order of tasks; stops when it answers false. The `rank` of a temporary, whose number is
// `slot`, is kTemporary.
template <class Visit>
bool for_each_access(const RunDraft& draft, Visit&& visit) {
  for (std::uint32_t task = 0; task < draft.task_count(); ++task) {
    const TaskPlace& place = draft.places[task];
    const frame::FrameDraft& lane = draft.lane(place.rank);
    const frame::Range range = lane.tasks[place.ordinal].arguments;
    const frame::ArgumentRecord* const records = lane.arguments.data() + range.first;
    for (std::uint32_t i = 0; i < range.count; ++i) {
      const frame::ArgumentRecord& record = records[i];
      if (record.place == frame::Place::heap) {
        if (!visit(task, i, record, kTemporary, record.slot, record.offset)) return false;
        continue;
      }
      if (record.tag == Tag::no_dep) continue;
      if (record.place == frame::Place::buffer) [[likely]] {
        if (!visit(task, i, record, place.rank, record.slot, record.offset)) return false;
      } else if (place.foreign != frame::kNone) {
        const ForeignSource& source = draft.foreign[place.foreign];
        if (!visit(task, i, record, source.rank, source.slot, source.offset)) return false;
      }
    }
  }
  return true;
}

constexpr std::uint64_t key_of(std::int32_t rank, std::uint32_t slot) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank)) << 32 | slot;
}

template <class T>
void fill(base::Scratch<T>* array, std::size_t count) {
  array->clear();
  std::fill_n(array->extend(count), count, T());
}

}  // namespace

// The number of the buffer: that of the first argument which touches it.
std::uint32_t TaskOrder::buffer_of(std::uint64_t key, std::uint32_t argument) {
  const std::size_t mask = rows_.size() - 1;
  for (std::size_t i = key * 0x9e3779b97f4a7c15u >> 32;; ++i) {
    Row& row = rows_[i & mask];
    if (row.round != round_) {
      row = {key, argument, round_};
      return argument;
    }
    if (row.key == key) return row.buffer;
  }
}

// True if two arguments touch one buffer.
bool TaskOrder::relate(const RunDraft& draft, base::Scratch<Relation>* relations) {
  std::size_t most = 0;
  draft.used.for_each([&](int rank) { most += draft.lane(rank).arguments.size(); });
  relations->clear();
  if (most == 0) return false;
  if (rows_.size() < 2 * most || ++round_ == 0) {
    fill(&rows_, std::max(rows_.size(), std::bit_ceil(2 * most)));
    round_ = 1;
  }
  Relation* const first = relations->extend(most);
  std::uint32_t count = 0;
  bool shared = false;
  for_each_access(draft, [&](std::uint32_t, std::uint32_t, const frame::ArgumentRecord&,
                             std::int32_t rank, std::uint32_t slot, std::uint64_t offset) {
    const std::uint32_t buffer = buffer_of(key_of(rank, slot), count);
    first[count] = {offset, buffer, 0};
    if (buffer != count || rank == kTemporary) [[unlikely]] {
      first[count].shared = first[buffer].shared = 1;
      shared = true;
    }
    ++count;
    return true;
  });
  relations->shrink(count);
  return shared;
}

bool TaskOrder::holds(const RunDraft& draft) {
  relate(draft, &others_);
  return std::ranges::equal(relations_, others_, [](const Relation& a, const Relation& b) {
    return a.buffer == b.buffer && (a.shared == 0 || a.offset == b.offset);
  });
}

std::optional<TaskOrder::Conflict> TaskOrder::lay_out(RunDraft& draft) {
  draft.used.for_each([&](int rank) {
    frame::FrameDraft& lane = draft.lane(rank);
    lane.edges.clear();
    lane.waits.clear();
    lane.notifies.clear();
    for (frame::TaskRecord& task : lane.tasks) task.edges = task.waits = task.notifies = {};
  });
  const bool shared = relate(draft, &relations_);
  if (!shared && draft.afters.empty()) return std::nullopt;

  touches_.clear();
  edges_.clear();
  notices_.clear();
  fill(&touched_, relations_.size());
  fill(&seen_, draft.task_count());
  std::optional<Conflict> conflict;
  std::uint32_t at_hand = 0;
  std::size_t after = 0;
  const auto end_task = [&](std::uint32_t next) {
    for (; at_hand < next; ++at_hand) {
      for (; after < draft.afters.size() && draft.afters[after].task == at_hand; ++after) {
        add_edge(at_hand, draft.afters[after].earlier, frame::kNeeds);
      }
      put_edges(draft, at_hand);
    }
  };
  std::uint32_t number = 0;
  for_each_access(
      draft, [&](std::uint32_t task, std::uint32_t argument, const frame::ArgumentRecord& record,
                 std::int32_t rank, std::uint32_t slot, std::uint64_t offset) {
        end_task(task);
        const Relation& relation = relations_[number++];
        if (relation.shared == 0) return true;
        const Touch access{offset, record.layout, task, argument, frame::kNone};
        met_ = 0;
        conflict = touch(draft, access, record.tag, relation.buffer);
        if (rank == kTemporary && met_ == 0) come_after_overlaid(draft, task, slot);
        return !conflict;
      });
  if (conflict) return conflict;
  end_task(draft.task_count());
  put_notices(draft);
  return std::nullopt;
}

std::optional<TaskOrder::Conflict> TaskOrder::touch(const RunDraft& draft, const Touch& access,
                                                    Tag tag, std::uint32_t buffer) {
  const auto bits = static_cast<std::uint32_t>(tag);
  const bool writes = (bits & kWrites) != 0;
  Touched& touched = touched_[buffer];
  if (tag == Tag::no_dep) {
    add_touch(access, &touched.others);
    return std::nullopt;
  }
  auto conflict =
      look_at(draft, access, &touched.writers, (bits & kReads) != 0 ? frame::kNeeds : 0, writes);
  if (!conflict && writes) conflict = look_at(draft, access, &touched.readers, 0, true);
  if (conflict) return conflict;
  add_touch(access, writes ? &touched.writers : &touched.readers);
  return std::nullopt;
}

void TaskOrder::add_touch(const Touch& access, std::uint32_t* list) {
  const auto number = static_cast<std::uint32_t>(touches_.size());
  touches_.push(access);
  touches_.back().next = std::exchange(*list, number);
}

// Of the temporaries that had bytes of this one all accesses are known: they are dead.
void TaskOrder::come_after_overlaid(const RunDraft& draft, std::uint32_t task,
                                    std::uint32_t number) {
  for (std::uint32_t i = draft.temporaries[number].over; i != frame::kNone;
       i = draft.overlays[i].next) {
    const std::uint32_t earlier = draft.overlays[i].earlier;
    const Touched& touched = touched_[buffer_of(key_of(kTemporary, earlier), frame::kNone)];
    for (const std::uint32_t list : {touched.writers, touched.readers, touched.others}) {
      for (std::uint32_t at = list; at != frame::kNone; at = touches_[at].next) {
        add_edge(task, touches_[at].task, 0);
      }
    }
  }
}

// What an access wholly overwrites is forgotten: whoever comes after that comes after the access.
std::optional<TaskOrder::Conflict> TaskOrder::look_at(const RunDraft& draft, const Touch& access,
                                                      std::uint32_t* list, std::uint32_t needs,
                                                      bool covering) {
  const frame::LayoutRecord& layout = draft.layouts[access.layout];
  for (std::uint32_t* link = list; *link != frame::kNone;) {
    Touch& earlier = touches_[*link];
    const frame::LayoutRecord& earlier_layout = draft.layouts[earlier.layout];
    if (!tensor::overlap(layout, access.offset, earlier_layout, earlier.offset)) {
      link = &earlier.next;
      continue;
    }
    if (earlier.task == access.task)
      return Conflict{access.task, earlier.argument, access.argument};
    ++met_;
    add_edge(access.task, earlier.task, needs);
    if (covering && tensor::covers(layout, access.offset, earlier_layout, earlier.offset)) {
      *link = earlier.next;
    } else {
      link = &earlier.next;
    }
  }
  return std::nullopt;
}

void TaskOrder::add_edge(std::uint32_t task, std::uint32_t earlier, std::uint32_t needs) {
  Seen& seen = seen_[earlier];
  if (seen.task == task) {
    edges_[seen.edge].needs |= needs;
    return;
  }
  seen = {task, static_cast<std::uint32_t>(edges_.size())};
  edges_.push({earlier, needs});
}

void TaskOrder::put_edges(RunDraft& draft, std::uint32_t task) {
  const TaskPlace& place = draft.places[task];
  frame::FrameDraft& lane = draft.lane(place.rank);
  frame::TaskRecord& record = lane.tasks[place.ordinal];
  record.edges.first = static_cast<std::uint32_t>(lane.edges.size());
  record.waits.first = static_cast<std::uint32_t>(lane.waits.size());
  for (const Edge& edge : edges_) {
    const TaskPlace& earlier = draft.places[edge.earlier];
    if (earlier.rank == place.rank) {
      lane.edges.push(earlier.ordinal | edge.needs);
    } else {
      lane.waits.push({static_cast<std::uint32_t>(earlier.rank), earlier.ordinal + 1, edge.earlier,
                       edge.needs});
      notices_.push({edge.earlier, place.rank});
    }
  }
  record.edges.count = static_cast<std::uint32_t>(lane.edges.size()) - record.edges.first;
  record.waits.count = static_cast<std::uint32_t>(lane.waits.size()) - record.waits.first;
  edges_.clear();
}

void TaskOrder::put_notices(RunDraft& draft) {
  const auto key = [](const Notice& notice) { return std::tuple(notice.task, notice.lane); };
  std::ranges::sort(notices_, {}, key);
  for (std::size_t i = 0; i < notices_.size(); ++i) {
    if (i != 0 && key(notices_[i]) == key(notices_[i - 1])) continue;
    const TaskPlace& place = draft.places[notices_[i].task];
    frame::FrameDraft& lane = draft.lane(place.rank);
    frame::Range& notifies = lane.tasks[place.ordinal].notifies;
    if (notifies.count++ == 0) notifies.first = static_cast<std::uint32_t>(lane.notifies.size());
    lane.notifies.push(static_cast<std::uint32_t>(notices_[i].lane));
  }
}

}  // namespace rankcast::graph
