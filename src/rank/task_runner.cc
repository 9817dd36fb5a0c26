#include "rank/task_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/atomic.h"
#include "tensor/layout.h"

namespace rankcast::rank {

using base::failure;
using base::Status;
using base::TimelineValue;
using frame::ArgumentRecord;
using frame::Outcome;
using frame::TaskRecord;

std::byte* find_block(link::RankPort& port, const frame::BlockRef& ref) noexcept {
  std::uint64_t segment_bytes = 0;
  std::byte* base = port.segment(ref.segment, &segment_bytes);
  const bool inside = base != nullptr && ref.offset % frame::kSectionAlignment == 0 &&
                      ref.offset <= segment_bytes && ref.bytes <= segment_bytes - ref.offset;
  return inside ? base + ref.offset : nullptr;
}

void TaskRunner::run(const ResolvedFrame& resolved, const frame::Record& record,
                     std::span<const frame::RunWait> waits, frame::RunRecord& run,
                     LaneError* error) {
  at_hand_ = {&resolved, &record, &run, error, waits};
  any_bad_ = false;
  const std::span<const TaskRecord> tasks = resolved.frame().tasks;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskRecord& task = tasks[i];
    recorder_.at_task(static_cast<std::uint32_t>(i));
    wait_for_earlier(task, i);
    Outcome outcome = verdict(task);
    Status status;
    if (outcome == Outcome::good) [[likely]] {
      if (task.kind == frame::TaskKind::copy || !undefined_.empty()) status = check_reads(task);
      if (!status.ok()) outcome = Outcome::failed;
    }
    if (task.group != frame::kNone) [[unlikely]] {
      outcome = run_member(task, outcome, &status);
    } else if (outcome == Outcome::good) [[likely]] {
      status = run_task(task);
      if (!status.ok()) outcome = Outcome::failed;
    }
    if (outcome != Outcome::good) [[unlikely]] {
      end_badly(task, i, outcome, std::move(status));
    }
    if (outcome != Outcome::good || !undefined_.empty()) note_writes(task, outcome);
    if (task.notifies.count != 0 && i + 1 < tasks.size()) notify(task, i);
  }
}

void TaskRunner::wait_for_earlier(const TaskRecord& task, std::size_t ordinal) noexcept {
  std::span<const frame::RunWait>& others = at_hand_.waits;
  while (!others.empty() && others.front().before <= ordinal) {
    port_.wait_for_lane(static_cast<int>(others.front().lane), TimelineValue{others.front().value});
    others = others.subspan(1);
  }
  if (task.waits.count == 0) [[likely]] {
    return;
  }
  for (const frame::WaitRecord& wait :
       at_hand_.resolved->frame().waits.subspan(task.waits.first, task.waits.count)) {
    port_.wait_for_lane(static_cast<int>(wait.lane),
                        TimelineValue::make(at_hand_.record->run, wait.tasks));
  }
}

bool TaskRunner::cancelled() const noexcept {
  return base::load_seq_cst(at_hand_.run->cancel) != 0;
}

// Whether a task may start, once everything before it has retired.
Outcome TaskRunner::verdict(const TaskRecord& task) {
  const frame::Frame& frame = at_hand_.resolved->frame();
  if (cancelled()) return Outcome::cancelled;
  if (any_bad_) {
    for (const std::uint32_t edge : frame.edges.subspan(task.edges.first, task.edges.count)) {
      if ((edge & frame::kNeeds) != 0 && outcomes_[edge & ~frame::kNeeds] != Outcome::good)
        return Outcome::poisoned;
    }
  }
  for (const frame::WaitRecord& wait : frame.waits.subspan(task.waits.first, task.waits.count)) {
    if ((wait.flags & frame::kNeeds) != 0 && outcome_of(wait.task) != std::byte{0})
      return Outcome::poisoned;
  }
  return Outcome::good;
}

std::span<const ArgumentRecord> TaskRunner::arguments_of(const TaskRecord& task) const noexcept {
  return at_hand_.resolved->frame().arguments.subspan(task.arguments.first, task.arguments.count);
}

frame::Region TaskRunner::region_of(const ArgumentRecord& argument) const noexcept {
  const frame::LayoutRecord& layout = at_hand_.resolved->frame().layouts[argument.layout];
  if (argument.place == frame::Place::segment)
    return {.segment = argument.slot, .offset = argument.offset, .layout = layout};
  const Buffers::Place place = buffers_.place(argument.slot);
  return {.segment = place.segment, .offset = place.offset + argument.offset, .layout = layout};
}

// What another rank's task should have written is in that rank's list.
Status TaskRunner::check_reads(const TaskRecord& task) const {
  const std::span<const ArgumentRecord> arguments = arguments_of(task);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ArgumentRecord& argument = arguments[i];
    if (argument.tag != Tag::in && argument.tag != Tag::inout) continue;
    std::optional<std::uint64_t> run;
    if (argument.place == frame::Place::buffer) {
      run = undefined_.find(region_of(argument));
    } else if (task.kind == frame::TaskKind::copy &&
               argument.lane < static_cast<std::uint32_t>(port_.world_size())) {
      run = undefined_.find_of(static_cast<int>(argument.lane), region_of(argument));
    }
    if (!run) continue;
    return failure(ErrorCode::undefined_contents,
                   "the contents of argument {} are undefined: {} should have written them, but a "
                   "task of it failed or did not start; upload them, or write all of them by an "
                   "`out` argument first",
                   i, *run == 0 ? std::string("an earlier run") : fmt::format("run {}", *run))
        .with_argument(static_cast<int>(i));
  }
  return {};
}

void TaskRunner::note_writes(const TaskRecord& task, Outcome outcome) {
  for (const ArgumentRecord& argument : arguments_of(task)) {
    const bool written = argument.tag == Tag::out || argument.tag == Tag::inout;
    if (!written || argument.place != frame::Place::buffer) continue;
    if (outcome == Outcome::good) {
      undefined_.remove(region_of(argument));
    } else {
      undefined_.add(region_of(argument), at_hand_.record->run);
    }
  }
}

// Of a task of another lane, whose timeline has passed it. A place that is not there says nothing
// good.
std::byte TaskRunner::outcome_of(std::uint32_t task) {
  const frame::BlockRef ref = at_hand_.run->outcomes;
  const std::byte* const bytes = find_block(port_, ref);
  return bytes != nullptr && task < ref.bytes ? bytes[task]
                                              : static_cast<std::byte>(Outcome::failed);
}

Status TaskRunner::run_task(const TaskRecord& task) {
  return task.kind == frame::TaskKind::launch ? launch(task) : transfer(task);
}

rankcast_call TaskRunner::call_of(const TaskRecord& task) const noexcept {
  const ResolvedFrame& resolved = *at_hand_.resolved;
  rankcast_call call{};
  call.struct_size = sizeof(call);
  call.tensor_count = task.arguments.count;
  call.tensors = resolved.tensors.data() + task.arguments.first;
  call.tags = resolved.tags.data() + task.arguments.first;
  call.scalar_count = task.scalars.count;
  call.scalars = resolved.scalars.data() + task.scalars.first;
  return call;
}

rankcast_kernel_context TaskRunner::context_of() const noexcept {
  rankcast_kernel_context context{};
  context.struct_size = sizeof(context);
  context.abi_version = RANKCAST_KERNEL_ABI_VERSION;
  context.rank = port_.rank();
  context.world_size = port_.world_size();
  context.stream = device_.stream();
  context.abort_word = reinterpret_cast<const std::uint32_t*>(&at_hand_.run->cancel);
  return context;
}

Status TaskRunner::launch(const TaskRecord& task) {
  const KernelEntry* entry = kernels_.entry(task.kernel);
  if (entry == nullptr) {
    return failure(ErrorCode::internal, "damaged frame: kernel {} is unknown on this rank",
                   task.kernel);
  }
  const rankcast_kernel& kernel = entry->abi;
  const rankcast_call call = call_of(task);
  rankcast_kernel_context context = context_of();
  Preparation preparation;
  preparation.state = entry->initial_state;
  if (kernel.prepare != nullptr && device_.computes()) {
    prepare_layouts_.clear();
    for (const ArgumentRecord& argument : arguments_of(task)) {
      prepare_layouts_.push(at_hand_.resolved->frame().layouts[argument.layout]);
    }
    std::int32_t argument = -1;
    auto prepared =
        prepared_.get(task.prepare_id, kernel, context, call, prepare_layouts_.span(), &argument);
    if (!prepared) return std::move(prepared).error().with_argument(argument);
    preparation = *prepared;
  }
  return start(kernel, preparation, context, call);
}

Status TaskRunner::start(const rankcast_kernel& kernel, const Preparation& preparation,
                         rankcast_kernel_context& context, const rankcast_call& call) {
  context.workspace = preparation.workspace;
  context.workspace_bytes = preparation.workspace_bytes;
  signal_.arm();
  device_.launch({&kernel, preparation.state, &context, &call}, signal_);
  return wait_for_signal();
}

// Argument 0 is the tensor; of an upload or download argument 1 is the host's memory, of a copy the
// source.
Status TaskRunner::transfer(const TaskRecord& task) {
  const frame::Frame& frame = at_hand_.resolved->frame();
  const std::uint32_t first = task.arguments.first;
  const frame::LayoutRecord& tensor_layout = frame.layouts[frame.arguments[first].layout];
  const frame::LayoutRecord& other_layout = frame.layouts[frame.arguments[first + 1].layout];
  if (task.kind == frame::TaskKind::copy_send) {
    return failure(ErrorCode::internal, "damaged frame: task kind {} is unknown to this rank",
                   static_cast<int>(task.kind));
  }
  if (!tensor::same_shape(tensor_layout, other_layout)) {
    return failure(ErrorCode::internal, "damaged frame: a transfer between {} and {}",
                   tensor::describe(tensor_layout), tensor::describe(other_layout));
  }
  void* tensor = at_hand_.resolved->tensors[first].data;
  void* other = at_hand_.resolved->tensors[first + 1].data;
  signal_.arm();
  if (task.kind == frame::TaskKind::download) {
    device_.copy({other, &other_layout, tensor, &tensor_layout}, signal_);
  } else {
    device_.copy({tensor, &tensor_layout, other, &other_layout}, signal_);
  }
  return wait_for_signal();
}

Status TaskRunner::wait_for_signal() {
  using State = device::Signal::State;
  if (signal_.state() == State::pending) {
    port_.wait_until([this]() noexcept { return signal_.state() != State::pending; });
  }
  if (signal_.state() == State::done) [[likely]] {
    return {};
  }
  signal_.failure.text[RANKCAST_FAILURE_TEXT_BYTES - 1] = '\0';
  const std::string_view text = signal_.failure.text;
  return failure(ErrorCode::task_failed, "{}",
                 text.empty() ? "the kernel failed and gave no reason" : text)
      .with_argument(signal_.failure.argument);
}

std::string_view TaskRunner::task_name(const TaskRecord& task) const {
  switch (task.kind) {
    case frame::TaskKind::upload:
      return "upload";
    case frame::TaskKind::download:
      return "download";
    case frame::TaskKind::copy:
      return "copy";
    default: {
      const KernelEntry* entry = kernels_.entry(task.kernel);
      return entry == nullptr ? std::string_view("unknown kernel") : std::string_view(entry->name);
    }
  }
}

// A task that failed or did not start. What is told of the lane is its first failure, else the
// first task that a cancel kept from starting; of a poisoned one the failure is told by its own
// lane.
void TaskRunner::end_badly(const TaskRecord& task, std::size_t ordinal, Outcome outcome,
                           Status status) {
  if (!std::exchange(any_bad_, true)) {
    outcomes_.clear();
    const std::size_t count = at_hand_.resolved->frame().tasks.size();
    std::fill_n(outcomes_.extend(count), count, Outcome::good);
  }
  outcomes_[ordinal] = outcome;
  LaneError& error = *at_hand_.error;
  if (outcome == Outcome::cancelled) {
    status = failure(ErrorCode::cancelled, "not started: the run was cancelled");
  } else if (outcome == Outcome::failed && status.code == ErrorCode::task_failed && cancelled()) {
    status.code = ErrorCode::cancelled;  // a kernel that saw the abort word gives up
  }
  const bool first = error.status.ok() || (error.status.code == ErrorCode::cancelled &&
                                           !status.ok() && status.code != ErrorCode::cancelled);
  if (!status.ok() && first) {
    error.status = std::move(status);
    // A kernel's own number.
    if (error.status.argument >= static_cast<int>(task.arguments.count)) error.status.argument = -1;
    error.status.argument = std::max(error.status.argument, -1);
    error.status.text = fmt::format("task {} ('{}') on rank {}: {}", task.task, task_name(task),
                                    port_.rank(), error.status.text);
    if (task.group != frame::kNone && error.status.code == ErrorCode::task_failed) {
      error.status.text += "; the other members of its group are told to give up";
    }
    error.task = task.task;
  }
  write_outcome(task.task, outcome);
}

// The run record is the host's, but every rank may write it.
void TaskRunner::write_outcome(std::uint32_t task, Outcome outcome) {
  const frame::BlockRef ref = at_hand_.run->outcomes;
  const std::uint32_t tasks = at_hand_.run->tasks;
  if (task >= tasks) return;
  std::byte* bytes = find_block(port_, ref);
  Status& status = at_hand_.error->status;
  if (bytes != nullptr && tasks <= ref.bytes) {
    bytes[task] = static_cast<std::byte>(outcome);
  } else if (status.code != ErrorCode::internal) {
    status.code = ErrorCode::internal;
    status.text = fmt::format(
        "damaged run record: outcomes of {} tasks in {} bytes at {} of segment {}; before that: {}",
        tasks, ref.bytes, ref.offset, ref.segment, status.text);
  }
}

void TaskRunner::notify(const TaskRecord& task, std::size_t ordinal) noexcept {
  port_.advance(TimelineValue::make(at_hand_.record->run, ordinal + 1));
  base::RankSet peers;
  for (const std::uint32_t lane :
       at_hand_.resolved->frame().notifies.subspan(task.notifies.first, task.notifies.count)) {
    if (lane < static_cast<std::uint32_t>(port_.world_size())) {
      peers.insert(static_cast<int>(lane));
    }
  }
  port_.notify(peers);
}

}  // namespace rankcast::rank
