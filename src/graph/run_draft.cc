#include "graph/run_draft.h"

namespace rankcast::graph {

void RunDraft::shrink(std::uint32_t count) noexcept {
  if (count >= task_count()) return;
  while (task_count() > count) {
    const TaskPlace& place = places.back();
    frame::FrameDraft& on = lanes[static_cast<std::size_t>(place.rank)];
    on.arguments.shrink(on.tasks.back().arguments.first);
    on.scalars.shrink(on.tasks.back().scalars.first);
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
