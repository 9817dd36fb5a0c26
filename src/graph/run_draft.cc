#include "graph/run_draft.h"

#include <algorithm>

namespace rankcast::graph {

void RunDraft::add_group(std::span<const int> members, frame::GroupRecord record) {
  record.group = group_count++;
  const std::size_t first = places.size() - members.size();
  for (std::size_t i = 0; i < members.size(); ++i) {
    const TaskPlace& place = places[first + i];
    frame::FrameDraft& on = lanes[static_cast<std::size_t>(place.rank)];
    record.member_index = static_cast<std::uint32_t>(i);
    record.members = {static_cast<std::uint32_t>(on.members.size()),
                      static_cast<std::uint32_t>(members.size())};
    for (const int member : members) on.members.push(static_cast<std::uint32_t>(member));
    on.tasks[place.ordinal].group = static_cast<std::uint32_t>(on.groups.size());
    on.groups.push(record);
  }
}

void RunDraft::shrink(std::uint32_t count) noexcept {
  if (count >= task_count()) return;
  while (task_count() > count) {
    const TaskPlace& place = places.back();
    frame::FrameDraft& on = lanes[static_cast<std::size_t>(place.rank)];
    on.arguments.shrink(on.tasks.back().arguments.first);
    on.scalars.shrink(on.tasks.back().scalars.first);
    if (const std::uint32_t group = on.tasks.back().group; group != frame::kNone) {
      group_count = std::min(group_count, on.groups[group].group);
      on.members.shrink(on.groups[group].members.first);
      on.groups.shrink(group);
    }
    on.tasks.shrink(on.tasks.size() - 1);
    if (place.foreign != frame::kNone) foreign.shrink(place.foreign);
    places.shrink(places.size() - 1);
  }
  while (!afters.empty() && afters.back().task >= count) afters.shrink(afters.size() - 1);
  used.clear();
  sources.clear();
  for (const TaskPlace& place : places) used.insert(place.rank);
  for (const ForeignSource& source : foreign) sources.insert(source.rank);
}

}  // namespace rankcast::graph
