#include "program/orchestration.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "base/serial.h"

namespace rankcast::detail {

using base::failure;
using base::Status;
using frame::TaskRecord;

namespace {

// The name of a copy among kernels, whose names have a dot; and its place among those found.
constexpr const char kCopyName[] = "copy";
constexpr std::size_t kCopyKernel = 0;

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
    : mesh_(mesh),
      draft_(mesh.world_size),
      encoder_(mesh_, draft_, layouts_, arguments_),
      kernels_{{kCopyName, {frame::kNone, nullptr}}} {}

void OrchestratorImpl::run(const Program& program, std::span<const Argument> arguments,
                           std::uint64_t epoch) {
  table_visits_ = 0;
  descriptors_built_ = 0;
  repeated_ = 0;
  moved_ = false;
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
    ordered_ = false;
    if (layouts_.begin_run()) checks_.clear();
    arguments_.number_layouts(layouts_, draft_.layouts);
  }

  const SubmitScope scope;
  submit_ = current_submit;
  Orchestrator orchestrator(*this);
  const std::span<const ArgumentEntry> entries = arguments_.entries();
  program.function()(orchestrator, Arguments(entries.data(), entries.size(), submit_));
  if (!first_failure_.ok()) base::throw_error(first_failure_);

  if (repeating_) end_repetition();
  order_tasks();
  if (anew) layouts_anew_ = draft_.layouts.size();
  epoch_ = epoch;
  // A run that began as a repetition and then met new layouts is no base for the next: its layouts
  // would only grow.
  remembered_ = draft_.layouts.size() == layouts_anew_;
}

// The first task that differs from last time ends the repetition: what followed it is forgotten.
void OrchestratorImpl::end_repetition() {
  repeating_ = false;
  if (repeated_ >= draft_.task_count()) return;
  draft_.shrink(repeated_);
  tasks_.shrink(repeated_);
  ordered_ = false;
}

void OrchestratorImpl::order_tasks() {
  if (ordered_ && (!moved_ || order_.holds(draft_))) return;
  ordered_ = false;
  const auto conflict = order_.lay_out(draft_);
  if (conflict) {
    const TaskRecord& task = draft_.task(conflict->task);
    const int rank = draft_.places[conflict->task].rank;
    const std::span<const frame::ArgumentRecord> records =
        draft_.lane(rank).arguments.span().subspan(task.arguments.first, task.arguments.count);
    base::throw_error(
        failure(
            ErrorCode::invalid_argument,
            "{} shares bytes with argument {}, and one of the two is written; pass tensors that "
            "do not overlap, or tag as no_dep the one for which that is meant",
            encoder_.place_of(conflict->second, conflict->task, kernel_name(task.kernel), rank,
                              records[conflict->second].argument),
            conflict->first)
            .with_rank(rank)
            .with_argument(static_cast<int>(conflict->second)));
  }
  ordered_ = true;
}

bool OrchestratorImpl::repeats(std::string_view kernel, int rank,
                               const TaskArgs& arguments) const noexcept {
  return repeated_ < tasks_.size() && kernels_[tasks_.kernel_of(repeated_)].name == kernel &&
         (arguments.submit_ == submit_ ||
          arguments.own_tensor_count() == arguments.tensor_count()) &&
         tasks_.equals(repeated_, rank, arguments.tensors(), arguments.afters());
}

// Brings the draft of a task that repeats up to date. False when it cannot stay as it is.
bool OrchestratorImpl::renew(const TaskArgs& arguments) {
  if (look_again_ || arguments.own_tensor_count() != 0) {
    std::uint64_t replaced = 0;
    if (!encoder_.renew(repeated_, arguments, epoch_moved_, &replaced)) return false;
    moved_ |= replaced != 0;
    descriptors_built_ += replaced;
    table_visits_ += epoch_moved_ ? arguments.tensor_count() : replaced;
  }
  return renew_scalars(arguments);
}

bool OrchestratorImpl::renew_scalars(const TaskArgs& arguments) {
  const std::span<const frame::ScalarRecord> scalars = arguments.scalars();
  const TaskRecord& task = draft_.task(repeated_);
  if (scalars.size() != task.scalars.count) return false;
  if (scalars.empty()) return true;
  const int rank = draft_.places[repeated_].rank;
  frame::FrameDraft& lane = draft_.lane(rank);
  frame::ScalarRecord* const known = lane.scalars.data() + task.scalars.first;
  if (std::memcmp(known, scalars.data(), scalars.size_bytes()) == 0) return true;
  std::memcpy(known, scalars.data(), scalars.size_bytes());
  return checks_
      .ask(kernels_[tasks_.kernel_of(repeated_)], rank, task, lane,
           {draft_.layouts.data(), draft_.layouts.size()})
      .ok();
}

Task OrchestratorImpl::submit_task(std::string_view kernel, int rank, const TaskArgs& arguments) {
  if (repeating_) {
    if (repeats(kernel, rank, arguments) && renew(arguments)) [[likely]] {
      return {repeated_++, submit_};
    }
    end_repetition();
  }
  if (static_cast<std::uint32_t>(rank) >= static_cast<std::uint32_t>(mesh_.world_size))
      [[unlikely]] {
    return added(failure(ErrorCode::invalid_argument,
                         "task {} ('{}') names rank {}; this mesh has ranks 0 to {}",
                         draft_.task_count(), kernel, rank, mesh_.world_size - 1)
                     .with_rank(rank),
                 kCopyKernel, rank, arguments);
  }
  Status status = add_launch(kernel, rank, arguments);
  return added(std::move(status), last_kernel_, rank, arguments);
}

Task OrchestratorImpl::submit_copy(const TaskArgs& arguments) {
  auto rank = encoder_.rank_of_copy(repeating_ ? repeated_ : draft_.task_count(), arguments);
  if (!rank) return added(std::move(rank).error(), kCopyKernel, 0, arguments);
  if (repeating_) {
    if (repeats(kCopyName, *rank, arguments) &&
        (!(look_again_ || arguments.own_tensor_count() != 0) ||
         encoder_.copy_stands(repeated_, arguments, epoch_moved_))) {
      return {repeated_++, submit_};
    }
    end_repetition();
  }
  Status status = check_submit(kCopyName, *rank, arguments);
  if (status.ok()) status = encoder_.add_copy(*rank, arguments);
  if (status.ok()) {
    descriptors_built_ += 2;
    table_visits_ += 2;
  }
  return added(std::move(status), kCopyKernel, *rank, arguments);
}

// The end of both: a task that was refused makes the run refused, and is told at once.
Task OrchestratorImpl::added(Status status, std::size_t kernel, int rank,
                             const TaskArgs& arguments) {
  if (!status.ok()) [[unlikely]] {
    if (first_failure_.ok()) first_failure_ = status;
    base::throw_error(std::move(status));
  }
  ordered_ = false;
  const std::uint32_t task = draft_.task_count() - 1;
  for (const std::uint32_t earlier : arguments.afters()) draft_.afters.push({task, earlier});
  tasks_.add(kernel, rank, arguments.tensors(), arguments.afters());
  return {task, submit_};
}

const program::NamedKernel& OrchestratorImpl::find_kernel(std::string_view name, int rank) {
  if (last_kernel_ != kCopyKernel && kernels_[last_kernel_].name == name) [[likely]] {
    return kernels_[last_kernel_];
  }
  for (std::size_t i = kCopyKernel + 1; i < kernels_.size(); ++i) {
    if (kernels_[i].name == name) return kernels_[last_kernel_ = i];
  }
  const auto entry = mesh_.catalog->find(name);
  if (!entry) {
    Status status =
        failure(ErrorCode::invalid_argument,
                "task {} on rank {} names kernel '{}', which this mesh does not have; it has: {}",
                draft_.task_count(), rank, name, mesh_.catalog->describe())
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
Status OrchestratorImpl::check_submit(std::string_view kernel, int rank,
                                      const TaskArgs& arguments) const {
  for (std::size_t i = 0; i < arguments.tensor_count() && arguments.submit_ != submit_; ++i) {
    if (arguments.tensors()[i].number == kOwnTensor) continue;
    return failure(
               ErrorCode::invalid_argument,
               "argument {} of task {} ('{}') on rank {}: it refers to the arguments of another "
               "submit; build TaskArgs inside the orchestration function",
               i, draft_.task_count(), kernel, rank)
        .with_rank(rank)
        .with_argument(static_cast<int>(i));
  }
  return check_afters(kernel, rank, arguments);
}

Status OrchestratorImpl::check_afters(std::string_view kernel, int rank,
                                      const TaskArgs& arguments) const {
  for (const std::uint32_t earlier : arguments.afters()) {
    if (arguments.submit_ == submit_ && earlier < draft_.task_count()) continue;
    return failure(ErrorCode::invalid_argument,
                   "task {} ('{}') on rank {} is to come after a task of another submit; name one "
                   "that this orchestration function has submitted",
                   draft_.task_count(), kernel, rank)
        .with_rank(rank);
  }
  return {};
}

Status OrchestratorImpl::add_launch(std::string_view name, int rank, const TaskArgs& arguments) {
  const program::NamedKernel& kernel = find_kernel(name, rank);
  if (arguments.submit_ != submit_ || !arguments.afters().empty()) [[unlikely]] {
    if (Status status = check_submit(name, rank, arguments); !status.ok()) return status;
  }
  frame::FrameDraft& lane = draft_.lane(rank);
  TaskRecord task;
  task.kernel = kernel.entry.id;
  task.task = draft_.task_count();
  task.arguments = {static_cast<std::uint32_t>(lane.arguments.size()),
                    static_cast<std::uint32_t>(arguments.tensor_count())};
  table_visits_ += arguments.tensor_count();
  descriptors_built_ += arguments.tensor_count();
  if (Status status = encoder_.encode(name, rank, arguments, &signature_); !status.ok())
    return status;
  const std::span<const frame::ScalarRecord> scalars = arguments.scalars();
  task.scalars = {static_cast<std::uint32_t>(lane.scalars.size()),
                  static_cast<std::uint32_t>(scalars.size())};
  if (!scalars.empty()) {
    std::memcpy(lane.scalars.extend(scalars.size()), scalars.data(), scalars.size_bytes());
  }
  Status status =
      checks_.check(kernel, rank, task, lane, {draft_.layouts.data(), draft_.layouts.size()},
                    signature_.span(), &task.prepare_id);
  if (status.ok()) draft_.add_task(rank, task);
  return status;
}

Status OrchestratorImpl::recheck_locked() const {
  return encoder_.recheck([this](std::uint32_t id) { return kernel_name(id); });
}

std::string_view OrchestratorImpl::kernel_name(std::uint32_t id) const {
  for (const program::NamedKernel& kernel : kernels_) {
    if (kernel.entry.id == id) return kernel.name;
  }
  return "unknown kernel";
}

}  // namespace rankcast::detail
