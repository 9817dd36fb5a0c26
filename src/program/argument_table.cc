#include "program/argument_table.h"

#include <algorithm>

#include "base/status.h"
#include "tensor/tensor_access.h"

namespace rankcast::program {

using base::failure;
using detail::ArgumentEntry;
using detail::ArgumentKind;
using detail::StackedData;
using detail::TensorAccess;

namespace {

void point_to(ArgumentEntry& entry, const StackedData& data) noexcept {
  entry.shards = data.shards.data();
  entry.shard_of_rank = data.shard_of_rank.data();
  entry.shard_count = static_cast<std::uint32_t>(data.shards.size());
  entry.rank_count = static_cast<std::uint16_t>(data.shard_of_rank.size());
  entry.layout = &data.layout;
}

ArgumentEntry look_up(std::size_t index, const Argument& argument, std::uint64_t incarnation) {
  ArgumentEntry entry;
  entry.number = static_cast<std::uint32_t>(index);
  std::uint64_t mesh = incarnation;
  const auto& value = argument.value();
  if (const auto* stacked = std::get_if<StackedDeviceTensor>(&value)) {
    const StackedData* data = TensorAccess::data(*stacked);
    mesh = data == nullptr ? 0 : data->mesh;
    if (data != nullptr) point_to(entry, *data);
    entry.kind = ArgumentKind::stacked;
  } else if (const auto* tensor = std::get_if<DeviceTensor>(&value)) {
    mesh = TensorAccess::mesh(*tensor);
    entry.shards = &TensorAccess::shard(*tensor);
    entry.shard_count = 1;
    entry.whole = 0;
    entry.offset_bytes = TensorAccess::offset_bytes(*tensor);
    entry.layout = &TensorAccess::layout(*tensor);
    entry.kind = ArgumentKind::device;
  } else {
    entry.scalar = std::get_if<Scalar>(&value);
  }
  if (mesh == incarnation) return entry;
  base::throw_error(
      mesh == 0
          ? failure(ErrorCode::invalid_argument,
                    "argument {} of the submit is an empty tensor; pass one that a mesh gave",
                    index)
                .with_argument(static_cast<int>(index))
          : failure(ErrorCode::foreign_tensor,
                    "argument {} of the submit belongs to another mesh (incarnation {}, this is "
                    "{}); pass a tensor that this mesh gave",
                    index, mesh, incarnation)
                .with_argument(static_cast<int>(index))
                .with_rank(entry.shards[0].rank));
}

}  // namespace

Likeness ArgumentTable::take(std::span<const Argument> arguments, std::uint64_t incarnation,
                             const LayoutTable& layouts) {
  const bool comparable = complete_ && entries_.size() == arguments.size();
  Likeness likeness = comparable ? Likeness::same : Likeness::different;
  complete_ = false;
  if (!comparable) {
    entries_.clear();
    identities_.clear();
    std::ranges::fill_n(entries_.extend(arguments.size()), std::ssize(arguments), ArgumentEntry());
    std::ranges::fill_n(identities_.extend(arguments.size()), std::ssize(arguments), Identity());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    ArgumentEntry& known = entries_[i];
    Identity identity;
    if (const auto* stacked = std::get_if<StackedDeviceTensor>(&arguments[i].value())) {
      const StackedData* data = TensorAccess::data(*stacked);
      identity.serial = data == nullptr ? 0 : data->serial;
      if (identity.serial == identities_[i].serial && data != nullptr) [[likely]] {
        known.changed = false;  // it points into what it pointed into
        continue;
      }
      if (likeness != Likeness::different && known.kind == ArgumentKind::stacked &&
          data != nullptr && data->mesh == incarnation &&
          layouts.at(known.layout_id) == data->layout) {
        point_to(known, *data);
        known.changed = true;
        identities_[i].serial = data->serial;
        likeness = Likeness::alike;
        continue;
      }
    } else if (const auto* tensor = std::get_if<DeviceTensor>(&arguments[i].value())) {
      identity.offset_bytes = TensorAccess::offset_bytes(*tensor);
      identity.shard = TensorAccess::shard(*tensor);
    }
    ArgumentEntry entry = look_up(i, arguments[i], incarnation);
    if (likeness != Likeness::different) {
      const bool tensors = entry.layout != nullptr && known.layout != nullptr;
      if (tensors ? layouts.at(known.layout_id) == *entry.layout : entry.layout == known.layout) {
        entry.layout_id = known.layout_id;
        entry.layout_index = known.layout_index;
        entry.changed = !identity.names_same_tensor(identities_[i]);
        if (entry.changed) likeness = Likeness::alike;
      } else {
        likeness = Likeness::different;
      }
    }
    known = entry;
    identities_[i] = identity;
  }
  complete_ = likeness != Likeness::different;
  return likeness;
}

void ArgumentTable::number_layouts(LayoutTable& table,
                                   base::Scratch<frame::LayoutRecord>& layouts) {
  complete_ = false;
  for (ArgumentEntry& entry : entries_) {
    if (entry.kind == ArgumentKind::scalar) continue;
    const auto numbers = table.intern(*entry.layout, layouts);
    entry.layout_id = numbers.id;
    entry.layout_index = numbers.index;
  }
  complete_ = true;
}

}  // namespace rankcast::program
