#include "program/task_encoder.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "program/reference_loops.h"
#include "tensor/layout.h"
#include "tensor/tensor_access.h"

namespace rankcast::detail {

using base::failure;
using base::Result;
using base::Status;
using base::unexpected_failure;
using frame::ArgumentRecord;
using frame::TaskRecord;

namespace {

constexpr const char kOfAnotherSubmit[] =
    "it refers to the arguments of another submit; build TaskArgs inside the orchestration "
    "function";
constexpr const char kCopy[] = "copy";

// What a reference to a temporary refers to: no slot of a table has this generation.
bool is_temporary(const Shard& shard) noexcept { return shard.generation == 0; }

Status stale(const Shard& shard) {
  return failure(ErrorCode::stale_tensor,
                 "the tensor was freed (slot {}, generation {} of rank {} is no longer live); pass "
                 "a live tensor",
                 shard.slot, shard.generation, shard.rank);
}

}  // namespace

std::string TaskEncoder::place_of(std::size_t argument, std::uint32_t task, std::string_view kernel,
                                  int rank, std::uint32_t submit_argument) const {
  const auto* view = views_.find(submit_argument);
  const std::string origin =
      view != nullptr && view->is_temporary() ? fmt::format("temporary {} of the run", view->shard)
      : view != nullptr ? fmt::format("a view of argument {} of the submit", view->argument)
      : submit_argument == kOwnTensor ? std::string("a tensor that the program holds")
      : submit_argument == kStrange   ? std::string("a reference")
                                      : fmt::format("argument {} of the submit", submit_argument);
  return fmt::format("argument {} ({}) of task {} ('{}') on rank {}", argument, origin, task,
                     kernel, rank);
}

Status TaskEncoder::check_live(const Shard& shard) const {
  const memory::BufferTable& table = *mesh_.tables[static_cast<std::size_t>(shard.rank)];
  return table.live({shard.slot, shard.generation}) ? Status() : stale(shard);
}

Status TaskEncoder::encode(std::string_view kernel, int rank, const TaskArgs& arguments,
                           base::Scratch<std::uint32_t>* signature) {
  frame::FrameDraft& lane = draft_.lane(rank);
  const memory::BufferTable& table = *mesh_.tables[static_cast<std::size_t>(rank)];
  const std::size_t count = arguments.tensor_count();
  ArgumentRecord* const records = lane.arguments.extend(count);
  signature->clear();
  std::uint32_t* const words = signature->extend(count);
  for (std::size_t i = 0;; ++i) {
    i = program::encode_references(arguments_.entries(), table, rank, arguments.tensors(), i,
                                   records, words);
    if (i == count) return {};
    const TaskArgument& argument = arguments.tensors()[i];
    Status status = encode_one(argument, arguments, rank, &records[i], &words[i]);
    if (status.ok()) continue;
    status.text = fmt::format(
        "{}: {}", place_of(i, draft_.task_count(), kernel, rank, argument.number), status.text);
    return std::move(status).with_rank(rank).with_argument(static_cast<int>(i));
  }
}

Status TaskEncoder::encode_one(const TaskArgument& argument, const TaskArgs& arguments, int rank,
                               ArgumentRecord* record, std::uint32_t* signature) {
  auto located = locate(argument, arguments);
  if (!located) return std::move(located).error();
  const Shard& shard = located->shard;
  if (shard.rank != rank) {
    return failure(ErrorCode::wrong_rank,
                   "the tensor lives on rank {}, the task runs on rank {}; submit the task to rank "
                   "{}, pass the shard of rank {}, or bring the bytes over by copy",
                   shard.rank, rank, shard.rank, rank);
  }
  const bool temporary = is_temporary(shard);
  if (!temporary) {
    if (Status status = check_live(shard); !status.ok()) return status;
  }
  *record = {.offset = located->offset + (temporary ? draft_.temporaries[shard.slot].offset : 0),
             .slot = shard.slot,
             .generation = shard.generation,
             .layout = located->layout.index,
             .argument = located->argument,
             .lane = static_cast<std::uint32_t>(rank),
             .tag = static_cast<Tag>(argument.tag),
             .place = temporary ? frame::Place::heap : frame::Place::buffer,
             .reserved = 0};
  *signature = located->layout.id << 3 | argument.tag;
  return {};
}

Result<TaskEncoder::Located> TaskEncoder::locate(const TaskArgument& argument,
                                                 const TaskArgs& arguments) {
  if (argument.number == kOwnTensor) {
    const DeviceTensor& tensor = arguments.own_tensor(argument.shard);
    const std::uint64_t mesh = TensorAccess::mesh(tensor);
    if (mesh == 0) {
      return unexpected_failure(ErrorCode::invalid_argument,
                                "an empty tensor; pass one that a mesh gave");
    }
    if (mesh != mesh_.incarnation) {
      return unexpected_failure(ErrorCode::foreign_tensor,
                                "the tensor belongs to another mesh (incarnation {}, this is {}); "
                                "pass a tensor that this mesh gave",
                                mesh, mesh_.incarnation);
    }
    return Located{TensorAccess::shard(tensor), TensorAccess::offset_bytes(tensor),
                   layouts_.intern(TensorAccess::layout(tensor), draft_.layouts)};
  }
  if (const auto* view = views_.find(argument.number); view != nullptr) {
    return Located{*view->entry.shards, view->entry.offset_bytes,
                   layouts_.intern(view->layout, draft_.layouts),
                   view->is_temporary() ? frame::kNone : view->argument};
  }
  if (argument.shard == kTemporary) {
    return unexpected_failure(ErrorCode::stale_tensor, "{}", kStaleTemporary);
  }
  const std::span<const ArgumentEntry> entries = arguments_.entries();
  const bool known = argument.number < entries.size();
  if (known && entries[argument.number].kind == ArgumentKind::scalar) {
    return unexpected_failure(
        ErrorCode::invalid_argument,
        "a scalar stands where a tensor is wanted; pass it by TaskArgs::scalar");
  }
  if (known && argument.shard == kWholeStack) {
    return unexpected_failure(
        ErrorCode::invalid_argument,
        "a whole stack of {} shards; say which shard by shard_on(rank) or an index",
        entries[argument.number].shard_count);
  }
  if (!known || argument.shard >= entries[argument.number].shard_count) {
    return unexpected_failure(ErrorCode::invalid_argument, "{}", kOfAnotherSubmit);
  }
  const ArgumentEntry& entry = entries[argument.number];
  return Located{entry.shards[argument.shard],
                 entry.offset_bytes,
                 {entry.layout_id, entry.layout_index},
                 entry.number};
}

// ---- Copies
// ----------------------------------------------------------------------------------------------------------

Result<int> TaskEncoder::rank_of_copy(std::uint32_t task, const TaskArgs& arguments) {
  const std::span<const TaskArgument> tensors = arguments.tensors();
  if (tensors.size() != 2 || static_cast<Tag>(tensors[0].tag) != Tag::out ||
      static_cast<Tag>(tensors[1].tag) != Tag::in || !arguments.scalars().empty()) {
    return unexpected_failure(ErrorCode::invalid_argument,
                              "task {} ('{}') has {} tensors and {} scalars; a copy has its "
                              "destination as out, then its source as in, and nothing else",
                              task, kCopy, tensors.size(), arguments.scalars().size());
  }
  std::array<Located, 2> both;
  for (std::size_t i = 0; i < 2; ++i) {
    auto located = locate(tensors[i], arguments);
    if (!located) {
      Status status = std::move(located).error();
      status.text = fmt::format("argument {} of task {} ('{}'): {}", i, task, kCopy, status.text);
      return tl::unexpected(std::move(status).with_argument(static_cast<int>(i)));
    }
    both[i] = *located;
  }
  const frame::LayoutRecord& to = draft_.layouts[both[0].layout.index];
  const frame::LayoutRecord& from = draft_.layouts[both[1].layout.index];
  if (to.dtype != from.dtype || to.dims != from.dims || to.shape != from.shape) {
    return unexpected_failure(ErrorCode::invalid_argument,
                              "task {} ('{}') on rank {}: the destination is {}, the source {}; "
                              "dtype and shape must be equal",
                              task, kCopy, both[0].shard.rank, tensor::describe(to),
                              tensor::describe(from));
  }
  return both[0].shard.rank;
}

Status TaskEncoder::add_copy(int rank, const TaskArgs& arguments) {
  frame::FrameDraft& lane = draft_.lane(rank);
  TaskRecord task;
  task.kind = frame::TaskKind::copy;
  task.kernel = frame::kNone;
  task.arguments = {static_cast<std::uint32_t>(lane.arguments.size()), 2};
  task.scalars = {static_cast<std::uint32_t>(lane.scalars.size()), 0};
  ArgumentRecord* const records = lane.arguments.extend(2);
  std::uint32_t signature = 0;
  const auto named = [&](Status status, std::size_t i) {
    status.text = fmt::format(
        "{}: {}", place_of(i, draft_.task_count(), kCopy, rank, arguments.tensors()[i].number),
        status.text);
    return std::move(status).with_rank(rank).with_argument(static_cast<int>(i));
  };
  if (Status status = encode_one(arguments.tensors()[0], arguments, rank, records, &signature);
      !status.ok())
    return named(std::move(status), 0);
  const auto source = locate(arguments.tensors()[1], arguments);
  if (source->shard.rank == rank) {
    Status status = encode_one(arguments.tensors()[1], arguments, rank, records + 1, &signature);
    if (!status.ok()) return named(std::move(status), 1);
    draft_.add_task(rank, task);
    return {};
  }
  const bool temporary = is_temporary(source->shard);
  frame::BlockRef begin;
  if (temporary) {
    begin = {draft_.temporaries[source->shard.slot].offset, source->shard.slot, 1};
  } else {
    auto place = mesh_.places->find(source->shard, rank);
    if (!place) return named(std::move(place).error(), 1);
    if (place->bytes == 0) return named(stale(source->shard), 1);
    begin = *place;
  }
  records[1] = {.offset = begin.offset + source->offset,
                .slot = begin.segment,
                .generation = 0,
                .layout = source->layout.index,
                .argument = source->argument,
                .lane = static_cast<std::uint32_t>(source->shard.rank),
                .tag = Tag::in,
                .place = temporary ? frame::Place::heap : frame::Place::segment,
                .reserved = 0};
  draft_.add_task(rank, task);
  draft_.places.back().foreign = static_cast<std::uint32_t>(draft_.foreign.size());
  draft_.foreign.push(
      {source->offset, source->shard.slot, source->shard.generation, source->shard.rank});
  draft_.sources.insert(source->shard.rank);
  return {};
}

bool TaskEncoder::copy_stands(std::uint32_t task, const TaskArgs& arguments, bool recheck) {
  const graph::TaskPlace& place = draft_.places[task];
  const ArgumentRecord* const records =
      draft_.lane(place.rank).arguments.data() + draft_.task(task).arguments.first;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto located = locate(arguments.tensors()[i], arguments);
    if (!located || located->layout.index != records[i].layout) return false;
    if (is_temporary(located->shard)) continue;  // the same, or it would differ from last time
    graph::ForeignSource known{records[i].offset, records[i].slot, records[i].generation,
                               place.rank};
    if (i == 1 && place.foreign != frame::kNone) known = draft_.foreign[place.foreign];
    const Shard& shard = located->shard;
    if (shard.rank != known.rank || shard.slot != known.slot ||
        shard.generation != known.generation || located->offset != known.offset)
      return false;
    if (recheck && !check_live(shard).ok()) return false;
  }
  return true;
}

// ---- Repetition
// ------------------------------------------------------------------------------------------------------

bool TaskEncoder::renew(std::uint32_t task, const TaskArgs& arguments, bool recheck,
                        std::uint64_t* replaced) const {
  const int rank = draft_.places[task].rank;
  const memory::BufferTable& table = *mesh_.tables[static_cast<std::size_t>(rank)];
  const std::span<const TaskArgument> tensors = arguments.tensors();
  ArgumentRecord* const records =
      draft_.lane(rank).arguments.data() + draft_.task(task).arguments.first;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    i = program::replace_references(arguments_.entries(), table, rank, tensors, i, records,
                                    replaced);
    if (i == tensors.size()) break;
    if (!replace_one(tensors[i], arguments, rank, &records[i], replaced)) return false;
  }
  return !recheck || program::all_live(table, {records, tensors.size()});
}

// A tensor of the program's own, or a view of an argument: its layout and its place in the argument
// are those of last time.
bool TaskEncoder::replace_one(const TaskArgument& argument, const TaskArgs& arguments, int rank,
                              ArgumentRecord* record, std::uint64_t* replaced) const {
  Shard shard;
  std::uint64_t offset = 0;
  if (argument.number == kOwnTensor) {
    const DeviceTensor& tensor = arguments.own_tensor(argument.shard);
    if (TensorAccess::mesh(tensor) != mesh_.incarnation ||
        TensorAccess::layout(tensor) != draft_.layouts[record->layout])
      return false;
    shard = TensorAccess::shard(tensor);
    offset = TensorAccess::offset_bytes(tensor);
  } else if (const auto* view = views_.find(argument.number); view != nullptr) {
    if (view->is_temporary()) return true;  // the same, or it would differ from last time
    shard = *view->entry.shards;
    offset = view->entry.offset_bytes;
  } else {
    return false;
  }
  if (shard.rank != rank) return false;
  if (shard.slot == record->slot && shard.generation == record->generation &&
      offset == record->offset)
    return true;
  if (!mesh_.tables[static_cast<std::size_t>(rank)]->still_live({shard.slot, shard.generation}))
    return false;
  program::point_at(record, shard, offset);
  ++*replaced;
  return true;
}

Status TaskEncoder::recheck(base::FunctionRef<std::string_view(std::uint32_t)> name_of) const {
  for (std::uint32_t number = 0; number < draft_.task_count(); ++number) {
    const graph::TaskPlace& place = draft_.places[number];
    const TaskRecord& task = draft_.task(number);
    for (std::uint32_t i = 0; i < task.arguments.count; ++i) {
      const ArgumentRecord& argument = draft_.lane(place.rank).arguments[task.arguments.first + i];
      Shard shard{argument.slot, argument.generation, place.rank, 0};
      if (argument.place != frame::Place::buffer) {
        if (place.foreign == frame::kNone) continue;
        const graph::ForeignSource& source = draft_.foreign[place.foreign];
        if (source.generation == 0) continue;
        shard = {source.slot, source.generation, source.rank, 0};
      }
      Status status = check_live(shard);
      if (status.ok()) continue;
      const std::string_view kernel =
          task.kind == frame::TaskKind::copy ? std::string_view(kCopy) : name_of(task.kernel);
      status.text = fmt::format(
          "{}: {}", place_of(i, number, kernel, place.rank, argument.argument), status.text);
      return std::move(status).with_rank(place.rank).with_argument(static_cast<int>(i));
    }
  }
  return {};
}

}  // namespace rankcast::detail
