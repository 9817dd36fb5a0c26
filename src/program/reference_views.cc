#include "program/reference_views.h"

#include <algorithm>

#include "base/scratch.h"
#include "base/status.h"

namespace rankcast::program {

ReferenceViews::Entry& ReferenceViews::next() {
  if (count_ == kFirstView - 3) {  // the last numbers mean no argument
    base::throw_error(
        base::failure(ErrorCode::invalid_argument,
                      "a submit makes at most {} views of its arguments and temporaries", count_));
  }
  if (count_ == entries_.size()) {
    ++base::scratch_growths;
    entries_.push_back(std::make_unique<Entry>());
  }
  return *entries_[count_];
}

const detail::ArgumentEntry& ReferenceViews::add(const detail::ArgumentEntry& source,
                                                 std::uint32_t shard, const tensor::View& view) {
  Entry& entry = next();
  const Entry* const outer = find(source.number);
  const std::uint64_t offset = (outer == nullptr ? 0 : outer->offset_bytes) + view.offset_bytes;
  entry.entry.shards = source.shards + shard;
  entry.entry.offset_bytes = source.offset_bytes + view.offset_bytes;
  entry.entry.changed = source.changed;
  if (outer == nullptr) return add(entry, source.number, shard, offset, view.layout);
  // A view of another temporary than last time may be the same in all else.
  if (outer->is_temporary() && outer->differs) entry.argument = frame::kNone;
  return add(entry, outer->argument, outer->shard, offset, view.layout);
}

const detail::ArgumentEntry& ReferenceViews::add_temporary(std::uint32_t number, int rank,
                                                           const detail::Layout& layout) {
  Entry& entry = next();
  if (entry.temporary.rank != rank) entry.argument = frame::kNone;
  entry.temporary = {.slot = number, .rank = rank};
  entry.entry.shards = &entry.temporary;
  entry.entry.offset_bytes = 0;
  entry.entry.changed = false;
  return add(entry, detail::kTemporary, number, 0, layout);
}

// Everything else of an entry, compared with what it was in the submit before.
const detail::ArgumentEntry& ReferenceViews::add(Entry& entry, std::uint32_t argument,
                                                 std::uint32_t shard, std::uint64_t offset_bytes,
                                                 const detail::Layout& layout) {
  entry.differs = entry.argument != argument || entry.shard != shard ||
                  entry.offset_bytes != offset_bytes || entry.layout != layout;
  any_differs_ |= entry.differs;
  entry.argument = argument;
  entry.shard = shard;
  entry.offset_bytes = offset_bytes;
  entry.layout = layout;
  entry.entry.shard_count = 1;
  entry.entry.whole = 0;
  entry.entry.number = kFirstView + static_cast<std::uint32_t>(count_++);
  entry.entry.kind = detail::ArgumentKind::device;
  entry.entry.layout = &entry.layout;
  return entry.entry;
}

bool ReferenceViews::any_of_these_differs(
    std::span<const detail::TaskArgument> arguments) const noexcept {
  return std::ranges::any_of(arguments, [this](const detail::TaskArgument& argument) {
    const Entry* view = find(argument.number);
    return view != nullptr && view->differs;
  });
}

}  // namespace rankcast::program
