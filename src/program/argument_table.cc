#include "program/argument_table.h"

#include "base/status.h"
#include "tensor/tensor_access.h"

namespace rankcast::program {

using base::failure;
using detail::ArgumentEntry;
using detail::ArgumentKind;
using detail::StackedData;
using detail::TensorAccess;

namespace {

bool same_tensor(const Argument& a, const Argument& b) noexcept {
  if (const auto* stacked = std::get_if<StackedDeviceTensor>(&a.value())) {
    const auto* other = std::get_if<StackedDeviceTensor>(&b.value());
    return other != nullptr && TensorAccess::data(*stacked) == TensorAccess::data(*other);
  }
  if (const auto* tensor = std::get_if<DeviceTensor>(&a.value())) {
    const auto* other = std::get_if<DeviceTensor>(&b.value());
    return other != nullptr && tensor->buffer() == other->buffer() &&
           TensorAccess::offset_bytes(*tensor) == TensorAccess::offset_bytes(*other) &&
           TensorAccess::layout(*tensor) == TensorAccess::layout(*other);
  }
  return std::holds_alternative<Scalar>(b.value());
}

}  // namespace

bool ArgumentTable::take(std::span<const Argument> arguments, std::uint64_t incarnation) {
  bool same = complete_ && entries_.size() == arguments.size();
  complete_ = false;
  entries_.clear();
  entries_.extend(arguments.size());
  if (held_.size() < arguments.size()) {
    ++base::scratch_growths;
    held_.resize(arguments.size(), Argument(0));
    same = false;
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!same || !same_tensor(held_[i], arguments[i])) [[unlikely]] {
      same = false;
      replace(i, arguments[i], incarnation);
    } else if (entries_[i].kind == ArgumentKind::scalar) {
      held_[i] = arguments[i];  // in place: its entry points there
    }
  }
  complete_ = true;
  return same;
}

void ArgumentTable::replace(std::size_t index, const Argument& argument,
                            std::uint64_t incarnation) {
  held_[index] = argument;
  ArgumentEntry entry;
  entry.number = static_cast<std::uint32_t>(index);
  std::uint64_t mesh = incarnation;
  const auto& value = held_[index].value();
  if (const auto* stacked = std::get_if<StackedDeviceTensor>(&value)) {
    const StackedData* data = TensorAccess::data(*stacked);
    mesh = data == nullptr ? 0 : data->mesh;
    if (data != nullptr) {
      entry.shards = data->shards.data();
      entry.shard_of_rank = data->shard_of_rank.data();
      entry.shard_count = static_cast<std::uint32_t>(data->shards.size());
      entry.rank_count = static_cast<std::uint16_t>(data->shard_of_rank.size());
      entry.layout = &data->layout;
    }
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
  entries_[index] = entry;
  if (mesh == incarnation) return;
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

void ArgumentTable::number_layouts(LayoutTable& table,
                                   base::Scratch<frame::LayoutRecord>& layouts) {
  for (ArgumentEntry& entry : entries_) {
    if (entry.kind == ArgumentKind::scalar) continue;
    const auto numbers = table.intern(*entry.layout, layouts);
    entry.layout_id = numbers.id;
    entry.layout_index = numbers.index;
  }
}

}  // namespace rankcast::program
