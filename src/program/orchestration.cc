#include "program/orchestration.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstring>
#include <utility>

#include "base/serial.h"
#include "program/reference_loops.h"
#include "tensor/layout.h"
#include "tensor/tensor_access.h"

namespace rankcast::detail {

using base::failure;
using base::Status;
using frame::ArgumentRecord;
using frame::TaskRecord;

namespace {

constexpr const char kOfAnotherSubmit[] =
    "it refers to the arguments of another submit; build TaskArgs inside the orchestration "
    "function";

// The same for equal kernels, shapes, dtypes and strides: whatever the scalars, and in every
// orchestration of a mesh. Should two that differ meet in one number, the rank sees it and prepares
// anew.
std::uint64_t prepare_id_of(std::uint32_t kernel, std::span<const ArgumentRecord> arguments,
                            std::span<const frame::LayoutRecord> layouts) noexcept {
  constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
  std::uint64_t hash = (std::uint64_t{kernel} + 1) * kMultiplier;
  for (const ArgumentRecord& argument : arguments) {
    hash = (hash ^ tensor::layout_hash(layouts[argument.layout])) * kMultiplier;
    hash ^= hash >> 32;
  }
  return hash == 0 ? 1 : hash;
}

// While an orchestration function runs; of several meshes one may run inside another's.
class SubmitScope {
 public:
  SubmitScope() noexcept : outer_(std::exchange(current_submit, base::next_serial())) {}
  ~SubmitScope() { current_submit = outer_; }
  SubmitScope(const SubmitScope&) = delete;
  SubmitScope& operator=(const SubmitScope&) = delete;

 private:
  const std::uint64_t outer_;
};

}  // namespace

OrchestratorImpl::OrchestratorImpl(const program::MeshView& mesh)
    : mesh_(mesh), draft_(mesh.world_size) {}

void OrchestratorImpl::run(const Program& program, std::span<const Argument> arguments,
                           std::uint64_t epoch) {
  table_visits_ = 0;
  descriptors_built_ = 0;
  repeated_ = 0;
  first_failure_ = Status();
  program_name_ = program.name();
  const bool known = std::exchange(remembered_, false);
  const program::Likeness likeness = arguments_.take(arguments, mesh_.incarnation, layouts_);
  repeating_ = known && likeness != program::Likeness::different;
  epoch_moved_ = epoch != epoch_;
  look_again_ = epoch_moved_ || likeness == program::Likeness::alike;
  const bool anew = !repeating_;
  if (anew) {
    draft_.clear();
    tasks_.clear();
    if (layouts_.begin_run()) memo_.clear();
    arguments_.number_layouts(layouts_, draft_.layouts);
  }

  const SubmitScope scope;
  submit_ = current_submit;
  Orchestrator orchestrator(*this);
  const std::span<const ArgumentEntry> entries = arguments_.entries();
  program.function()(orchestrator, Arguments(entries.data(), entries.size(), submit_));
  if (!first_failure_.ok()) base::throw_error(first_failure_);

  if (repeating_) forget_tasks_from(repeated_);
  if (anew) layouts_anew_ = draft_.layouts.size();
  epoch_ = epoch;
  // A run that began as a repetition and then met new layouts is no base for the next: its layouts
  // would only grow.
  remembered_ = draft_.layouts.size() == layouts_anew_;
}

// The first task that differs from last time ends the repetition: what followed it is forgotten.
void OrchestratorImpl::forget_tasks_from(std::uint32_t task) {
  if (task >= draft_.task_count) return;
  base::RankSet used;
  draft_.used.for_each([&](int rank) {
    frame::FrameDraft& lane = draft_.lanes[static_cast<std::size_t>(rank)];
    while (!lane.tasks.empty() && lane.tasks.back().task >= task) {
      lane.arguments.shrink(lane.tasks.back().arguments.first);
      lane.scalars.shrink(lane.tasks.back().scalars.first);
      lane.tasks.shrink(lane.tasks.size() - 1);
    }
    if (!lane.tasks.empty()) used.insert(rank);
  });
  draft_.used = used;
  draft_.task_count = task;
  tasks_.shrink(task);
}

bool OrchestratorImpl::repeats(std::string_view kernel, int rank,
                               const TaskArgs& arguments) const noexcept {
  return repeated_ < tasks_.size() && kernels_[tasks_.kernel_of(repeated_)].name == kernel &&
         (arguments.submit_ == submit_ ||
          arguments.own_tensor_count() == arguments.tensor_count()) &&
         tasks_.equals(repeated_, rank, arguments.tensors());
}

// Brings the draft of a task that repeats up to date. False when it cannot stay as it is: it is
// then encoded anew, and why it may not run is said there.
bool OrchestratorImpl::renew(int rank, const TaskArgs& arguments) {
  frame::FrameDraft& lane = draft_.lane(rank);
  const TaskRecord& task = lane.tasks[tasks_.lane_task_of(repeated_)];
  const std::span<const frame::ScalarRecord> scalars = arguments.scalars();
  if (scalars.size() != task.scalars.count) return false;
  if (look_again_ || arguments.own_tensor_count() != 0) {
    if (!renew_tensors(task, rank, arguments)) return false;
  }
  if (scalars.empty()) return true;
  frame::ScalarRecord* const known = lane.scalars.data() + task.scalars.first;
  if (std::memcmp(known, scalars.data(), scalars.size_bytes()) == 0) return true;
  std::memcpy(known, scalars.data(), scalars.size_bytes());
  return ask_kernel(kernels_[tasks_.kernel_of(repeated_)], rank, task).ok();
}

bool OrchestratorImpl::renew_tensors(const TaskRecord& task, int rank, const TaskArgs& arguments) {
  const memory::BufferTable& table = *mesh_.tables[static_cast<std::size_t>(rank)];
  const std::span<const TaskArgument> tensors = arguments.tensors();
  ArgumentRecord* const records = draft_.lane(rank).arguments.data() + task.arguments.first;
  std::uint64_t replaced = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    i = program::replace_references(arguments_.entries(), table, rank, tensors, i, records,
                                    &replaced);
    if (i == tensors.size()) break;
    if (tensors[i].number != kOwnTensor ||
        !replace_own(arguments.own_tensor(tensors[i].shard), table, rank, &records[i], &replaced))
      return false;
  }
  descriptors_built_ += replaced;
  table_visits_ += epoch_moved_ ? tensors.size() : replaced;
  return !epoch_moved_ || program::all_live(table, {records, tensors.size()});
}

bool OrchestratorImpl::replace_own(const DeviceTensor& tensor, const memory::BufferTable& table,
                                   int rank, ArgumentRecord* record,
                                   std::uint64_t* replaced) const {
  const Shard& shard = TensorAccess::shard(tensor);
  if (TensorAccess::mesh(tensor) != mesh_.incarnation || shard.rank != rank ||
      TensorAccess::layout(tensor) != draft_.layouts[record->layout])
    return false;
  if (shard.slot == record->slot && shard.generation == record->generation &&
      TensorAccess::offset_bytes(tensor) == record->offset)
    return true;
  if (!table.still_live({shard.slot, shard.generation})) return false;
  program::point_at(record, shard, TensorAccess::offset_bytes(tensor));
  ++*replaced;
  return true;
}

Task OrchestratorImpl::submit_task(std::string_view kernel, int rank, const TaskArgs& arguments) {
  if (repeating_) {
    if (repeats(kernel, rank, arguments) && renew(rank, arguments)) [[likely]] {
      return Task(repeated_++);
    }
    repeating_ = false;
    forget_tasks_from(repeated_);
  }
  const std::uint32_t task = draft_.task_count;
  if (static_cast<std::uint32_t>(rank) >= static_cast<std::uint32_t>(mesh_.world_size))
      [[unlikely]] {
    Status status = failure(ErrorCode::invalid_argument,
                            "task {} ('{}') names rank {}; this mesh has ranks 0 to {}", task,
                            kernel, rank, mesh_.world_size - 1)
                        .with_rank(rank);
    if (first_failure_.ok()) first_failure_ = status;
    base::throw_error(std::move(status));
  }
  const KernelName& name = find_kernel(kernel, rank);
  if (Status status = encode_task(name, rank, arguments); !status.ok()) [[unlikely]] {
    if (first_failure_.ok()) first_failure_ = status;
    base::throw_error(std::move(status));
  }
  ++draft_.task_count;
  return Task(task);
}

const OrchestratorImpl::KernelName& OrchestratorImpl::find_kernel(std::string_view name, int rank) {
  if (last_kernel_ < kernels_.size() && kernels_[last_kernel_].name == name) [[likely]] {
    return kernels_[last_kernel_];
  }
  for (last_kernel_ = 0; last_kernel_ < kernels_.size(); ++last_kernel_) {
    if (kernels_[last_kernel_].name == name) return kernels_[last_kernel_];
  }
  const auto entry = mesh_.catalog->find(name);
  if (!entry) {
    Status status =
        failure(ErrorCode::invalid_argument,
                "task {} on rank {} names kernel '{}', which this mesh does not have; it has: {}",
                draft_.task_count, rank, name, mesh_.catalog->describe())
            .with_rank(rank);
    if (first_failure_.ok()) first_failure_ = status;
    base::throw_error(std::move(status));
  }
  last_kernel_ = kernels_.size();
  kernels_.push_back({std::string(name), *entry});
  return kernels_.back();
}

// For arguments that were put together outside of this orchestration function: the program's own
// tensors may come from anywhere, references only from here: what lies at a reference's place may
// be an argument of this submit by now, and as good as the one that was meant.
Status OrchestratorImpl::check_submit(const KernelName& kernel, int rank,
                                      const TaskArgs& arguments) const {
  for (std::size_t i = 0; i < arguments.tensor_count(); ++i) {
    if (arguments.tensors()[i].number == kOwnTensor) continue;
    return failure(ErrorCode::invalid_argument, "argument {} of task {} ('{}') on rank {}: {}", i,
                   draft_.task_count, kernel.name, rank, kOfAnotherSubmit)
        .with_rank(rank)
        .with_argument(static_cast<int>(i));
  }
  return {};
}

Status OrchestratorImpl::encode_task(const KernelName& kernel, int rank,
                                     const TaskArgs& arguments) {
  if (arguments.submit_ != submit_) [[unlikely]] {
    if (Status status = check_submit(kernel, rank, arguments); !status.ok()) return status;
  }
  frame::FrameDraft& lane = draft_.lane(rank);
  const memory::BufferTable& table = *mesh_.tables[static_cast<std::size_t>(rank)];
  const std::size_t count = arguments.tensor_count();
  const auto first = static_cast<std::uint32_t>(lane.arguments.size());
  ArgumentRecord* records = lane.arguments.extend(count);
  signature_.clear();
  std::uint32_t* signature = signature_.extend(count);
  table_visits_ += count;
  descriptors_built_ += count;

  for (std::size_t i = 0;; ++i) {
    i = program::encode_references(arguments_.entries(), table, rank, arguments.tensors(), i,
                                   records, signature);
    if (i == count) break;
    const TaskArgument& argument = arguments.tensors()[i];
    Status status = encode_argument(argument, arguments, table, rank, &records[i], &signature[i]);
    if (!status.ok()) {
      status.text =
          fmt::format("{}: {}", place_of(i, draft_.task_count, kernel.name, rank, argument.number),
                      status.text);
      return std::move(status).with_rank(rank).with_argument(static_cast<int>(i));
    }
  }

  TaskRecord task;
  task.kernel = kernel.entry.id;
  task.task = draft_.task_count;
  task.arguments = {first, static_cast<std::uint32_t>(count)};
  const std::span<const frame::ScalarRecord> scalars = arguments.scalars();
  task.scalars = {static_cast<std::uint32_t>(lane.scalars.size()),
                  static_cast<std::uint32_t>(scalars.size())};
  if (!scalars.empty()) {
    std::memcpy(lane.scalars.extend(scalars.size()), scalars.data(), scalars.size_bytes());
  }
  if (Status status = check_call(kernel, rank, task, &task.prepare_id); !status.ok()) return status;
  lane.tasks.push(task);
  tasks_.add(last_kernel_, rank, lane.tasks.size() - 1, arguments.tensors());
  return {};
}

Status OrchestratorImpl::encode_argument(const TaskArgument& argument, const TaskArgs& arguments,
                                         const memory::BufferTable& table, int rank,
                                         ArgumentRecord* record, std::uint32_t* signature) {
  Shard shard;
  std::uint64_t mesh = mesh_.incarnation;
  program::LayoutTable::Numbers numbers;
  std::uint64_t offset = 0;
  if (argument.number == kOwnTensor) {
    const DeviceTensor& tensor = arguments.own_tensor(argument.shard);
    mesh = TensorAccess::mesh(tensor);
    shard = TensorAccess::shard(tensor);
    offset = TensorAccess::offset_bytes(tensor);
    if (mesh == mesh_.incarnation)
      numbers = layouts_.intern(TensorAccess::layout(tensor), draft_.layouts);
  } else {
    const std::span<const ArgumentEntry> entries = arguments_.entries();
    const bool known = argument.number < entries.size();
    if (known && entries[argument.number].kind == ArgumentKind::scalar) {
      return failure(ErrorCode::invalid_argument,
                     "a scalar stands where a tensor is wanted; pass it by TaskArgs::scalar");
    }
    if (known && argument.shard == kWholeStack) {
      return failure(ErrorCode::invalid_argument,
                     "a whole stack of {} shards; say which shard by shard_on(rank) or an index",
                     entries[argument.number].shard_count);
    }
    if (!known || argument.shard >= entries[argument.number].shard_count) {
      return failure(ErrorCode::invalid_argument, kOfAnotherSubmit);
    }
    shard = entries[argument.number].shards[argument.shard];
  }
  if (mesh == 0)
    return failure(ErrorCode::invalid_argument, "an empty tensor; pass one that a mesh gave");
  if (mesh != mesh_.incarnation) {
    return failure(ErrorCode::foreign_tensor,
                   "the tensor belongs to another mesh (incarnation {}, this is {}); pass a tensor "
                   "that this mesh gave",
                   mesh, mesh_.incarnation);
  }
  if (shard.rank != rank) {
    return failure(
        ErrorCode::wrong_rank,
        "the tensor lives on rank {}, the task runs on rank {}; submit the task to rank {} "
        "or pass the shard of rank {}",
        shard.rank, rank, shard.rank, rank);
  }
  if (!table.live({shard.slot, shard.generation}))
    return describe_stale(rank, shard.slot, shard.generation);
  *record = {.offset = offset,
             .slot = shard.slot,
             .generation = shard.generation,
             .layout = numbers.index,
             .argument = frame::kNone,
             .lane = static_cast<std::uint32_t>(rank),
             .tag = static_cast<Tag>(argument.tag),
             .place = frame::Place::buffer,
             .reserved = 0};
  *signature = numbers.id << 3 | argument.tag;
  return {};
}

Status OrchestratorImpl::describe_stale(int rank, std::uint32_t slot,
                                        std::uint32_t generation) const {
  return failure(ErrorCode::stale_tensor,
                 "the tensor was freed (slot {}, generation {} of rank {} is no longer live); pass "
                 "a live tensor",
                 slot, generation, rank);
}

Status OrchestratorImpl::check_call(const KernelName& kernel, int rank, const TaskRecord& task,
                                    std::uint64_t* prepare_id) {
  const program::CheckMemo::Call remembered{kernel.entry.id, signature_.span()};
  *prepare_id = memo_.find(remembered);
  const bool met = *prepare_id != 0;
  if (met && task.scalars.count == 0) [[likely]] {
    return {};
  }
  if (Status status = ask_kernel(kernel, rank, task); !status.ok()) return status;
  if (met) return {};
  *prepare_id = prepare_id_of(
      kernel.entry.id,
      draft_.lane(rank).arguments.span().subspan(task.arguments.first, task.arguments.count),
      draft_.layouts.span());
  memo_.add(remembered, *prepare_id);
  return {};
}

// Whether the kernel takes a call of these shapes, dtypes, tags and scalars.
Status OrchestratorImpl::ask_kernel(const KernelName& kernel, int rank, const TaskRecord& task) {
  if (kernel.entry.kernel->check == nullptr) return {};
  const frame::FrameDraft& lane = draft_.lane(rank);
  tensors_.clear();
  tags_.clear();
  scalars_.clear();
  for (const ArgumentRecord& argument :
       lane.arguments.span().subspan(task.arguments.first, task.arguments.count)) {
    frame::LayoutRecord& layout = draft_.layouts[argument.layout];
    tensors_.push({nullptr, DLDevice{kDLCPU, 0}, layout.dims, tensor::to_dl(layout.dtype),
                   layout.shape.data(), layout.strides.data(), 0});
    tags_.push(static_cast<std::uint8_t>(argument.tag));
  }
  for (const frame::ScalarRecord& scalar :
       lane.scalars.span().subspan(task.scalars.first, task.scalars.count)) {
    rankcast_scalar value{};
    value.type = static_cast<std::int32_t>(scalar.type);
    std::memcpy(&value.value, &scalar.bits, sizeof(value.value));
    scalars_.push(value);
  }
  rankcast_call call{};
  call.struct_size = sizeof(call);
  call.tensor_count = task.arguments.count;
  call.tensors = tensors_.data();
  call.tags = tags_.data();
  call.scalar_count = task.scalars.count;
  call.scalars = scalars_.data();
  rankcast_failure refused{};
  refused.argument = -1;
  if (kernel.entry.kernel->check(&call, &refused) != RANKCAST_OK) {
    refused.text[RANKCAST_FAILURE_TEXT_BYTES - 1] = '\0';
    return failure(ErrorCode::invalid_argument,
                   "task {} ('{}') on rank {} is refused by the kernel's check: {}", task.task,
                   kernel.name, rank, refused.text)
        .with_rank(rank)
        .with_argument(refused.argument);
  }
  return {};
}

Status OrchestratorImpl::recheck_locked() const {
  Status status;
  draft_.used.for_each([&](int rank) {
    if (!status.ok()) return;
    const memory::BufferTable& table = *mesh_.tables[static_cast<std::size_t>(rank)];
    const frame::FrameDraft& lane = draft_.lane(rank);
    for (const TaskRecord& task : lane.tasks) {
      for (std::uint32_t i = 0; i < task.arguments.count; ++i) {
        const ArgumentRecord& argument = lane.arguments[task.arguments.first + i];
        if (argument.place != frame::Place::buffer ||
            table.live({argument.slot, argument.generation}))
          continue;
        status = describe_stale(rank, argument.slot, argument.generation);
        status.text = fmt::format(
            "{}: {}", place_of(i, task.task, kernel_name(task.kernel), rank, argument.argument),
            status.text);
        status.rank = rank;
        status.argument = static_cast<int>(i);
        return;
      }
    }
  });
  return status;
}

std::string OrchestratorImpl::place_of(std::size_t argument, std::uint32_t task,
                                       std::string_view kernel, int rank,
                                       std::uint32_t submit_argument) const {
  const std::string origin = submit_argument == frame::kNone
                                 ? std::string("a tensor that the program holds")
                                 : fmt::format("argument {} of the submit", submit_argument);
  return fmt::format("argument {} ({}) of task {} ('{}') on rank {}", argument, origin, task,
                     kernel, rank);
}

std::string_view OrchestratorImpl::kernel_name(std::uint32_t id) const {
  for (const KernelName& kernel : kernels_) {
    if (kernel.entry.id == id) return kernel.name;
  }
  return "transfer";
}

}  // namespace rankcast::detail
