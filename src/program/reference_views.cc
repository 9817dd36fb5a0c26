#include "program/reference_views.h"

#include <algorithm>

#include "base/scratch.h"
#include "base/status.h"

namespace rankcast::program {

const detail::ArgumentEntry& ReferenceViews::add(const detail::ArgumentEntry& source,
                                                 std::uint32_t shard, const tensor::View& view) {
  if (count_ == kFirstView - 2) {  // the last numbers mean no argument
    base::throw_error(base::failure(ErrorCode::invalid_argument,
                                    "a submit makes at most {} views of its arguments", count_));
  }
  const bool met_before = count_ < entries_.size();
  if (!met_before) {
    ++base::scratch_growths;
    entries_.push_back(std::make_unique<Entry>());
  }
  Entry& entry = *entries_[count_];
  const Entry* const outer = find(source.number);
  const std::uint32_t argument = outer == nullptr ? source.number : outer->argument;
  const std::uint32_t of_argument = outer == nullptr ? shard : outer->shard;
  const std::uint64_t offset = (outer == nullptr ? 0 : outer->offset_bytes) + view.offset_bytes;

  entry.differs = !met_before || entry.argument != argument || entry.shard != of_argument ||
                  entry.offset_bytes != offset || entry.layout != view.layout;
  any_differs_ |= entry.differs;
  entry.argument = argument;
  entry.shard = of_argument;
  entry.offset_bytes = offset;
  entry.layout = view.layout;

  entry.entry.shards = source.shards + shard;
  entry.entry.shard_count = 1;
  entry.entry.whole = 0;
  entry.entry.offset_bytes = source.offset_bytes + view.offset_bytes;
  entry.entry.number = kFirstView + static_cast<std::uint32_t>(count_++);
  entry.entry.kind = detail::ArgumentKind::device;
  entry.entry.changed = source.changed;
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
