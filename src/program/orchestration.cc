#include "program/orchestration.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "base/serial.h"
#include "tensor/layout.h"

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
  explicit SubmitScope(program::ReferenceViews& views) noexcept
      : outer_(std::exchange(current_submit, base::next_serial())),
        outer_views_(std::exchange(current_views, &views)) {}
  ~SubmitScope() {
    current_submit = outer_;
    current_views = outer_views_;
  }
  SubmitScope(const SubmitScope&) = delete;
  SubmitScope& operator=(const SubmitScope&) = delete;

 private:
  const std::uint64_t outer_;
  program::ReferenceViews* const outer_views_;
};

}  // namespace

OrchestratorImpl::OrchestratorImpl(const program::MeshView& mesh)
    : mesh_(mesh),
      draft_(mesh.world_size),
      encoder_(mesh_, draft_, layouts_, arguments_, views_),
      kernels_{{kCopyName, {frame::kNone, nullptr}}} {}

void OrchestratorImpl::run(const Program& program, std::span<const Argument> arguments,
                           std::uint64_t epoch) {
  if (!program.function()) [[unlikely]] {
    base::throw_error(failure(ErrorCode::invalid_argument,
                              "program '{}' has no orchestration function: it was moved from",
                              program.name()));
  }
  table_visits_ = 0;
  descriptors_built_ = 0;
  repeated_ = 0;
  temporaries_ = 0;
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

  views_.begin_submit();
  const SubmitScope scope(views_);
  submit_ = current_submit;
  Orchestrator orchestrator(*this);
  const std::span<const ArgumentEntry> entries = arguments_.entries();
  program.function()(orchestrator, Arguments(entries.data(), entries.size(), submit_));
  if (!first_failure_.ok()) base::throw_error(first_failure_);

  if (repeating_) end_repetition();
  draft_.temporaries.shrink(temporaries_);
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
  lay_out_heap();
  if (const auto conflict = order_.lay_out(draft_)) {
    base::throw_error(
        failure(
            ErrorCode::invalid_argument,
            "{} shares bytes with argument {}, and one of the two is written; pass tensors that "
            "do not overlap, or tag as no_dep the one for which that is meant",
            place_of(conflict->task, conflict->second), conflict->first)
            .with_rank(draft_.places[conflict->task].rank)
            .with_argument(static_cast<int>(conflict->second)));
  }
  ordered_ = true;
}

void OrchestratorImpl::lay_out_heap() {
  const auto unwritten = heap_.lay_out(draft_);
  if (!unwritten) return;
  base::throw_error(failure(ErrorCode::invalid_argument,
                            "{} is read, but no earlier task of the run writes it; what a "
                            "temporary holds at first is undefined: write it by an `out` argument",
                            place_of(unwritten->task, unwritten->argument))
                        .with_rank(draft_.places[unwritten->task].rank)
                        .with_argument(static_cast<int>(unwritten->argument)));
}

std::string OrchestratorImpl::place_of(std::uint32_t number, std::uint32_t argument) const {
  const TaskRecord& task = draft_.task(number);
  const int rank = draft_.places[number].rank;
  const frame::ArgumentRecord& record =
      draft_.lane(rank).arguments[task.arguments.first + argument];
  const std::string_view kernel =
      task.kind == frame::TaskKind::copy ? std::string_view(kCopyName) : kernel_name(task.kernel);
  return record.place == frame::Place::heap
             ? fmt::format("argument {} (temporary {} of the run) of task {} ('{}') on rank {}",
                           argument, record.slot, number, kernel, rank)
             : encoder_.place_of(argument, number, kernel, rank, record.argument);
}

bool OrchestratorImpl::repeats(std::string_view kernel, int rank, std::size_t members,
                               const TaskArgs& arguments) const noexcept {
  return repeated_ < tasks_.size() && kernels_[tasks_.kernel_of(repeated_)].name == kernel &&
         (arguments.submit_ == submit_ ||
          arguments.own_tensor_count() == arguments.tensor_count()) &&
         tasks_.equals(repeated_, rank, members, arguments.tensors(), arguments.afters()) &&
         !views_.differ(arguments.tensors());
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
    if (repeats(kernel, rank, 0, arguments) && renew(arguments)) [[likely]] {
      return {repeated_++, submit_};
    }
    end_repetition();
  }
  if (static_cast<std::uint32_t>(rank) >= static_cast<std::uint32_t>(mesh_.world_size))
      [[unlikely]] {
    refuse(failure(ErrorCode::invalid_argument,
                   "task {} ('{}') names rank {}; this mesh has ranks 0 to {}", draft_.task_count(),
                   kernel, rank, mesh_.world_size - 1)
               .with_rank(rank));
  }
  Status status = add_launch(kernel, rank, arguments);
  return added(std::move(status), last_kernel_, rank, 0, arguments);
}

Task OrchestratorImpl::submit_copy(const TaskArgs& arguments) {
  auto rank = encoder_.rank_of_copy(repeating_ ? repeated_ : draft_.task_count(), arguments);
  if (!rank) refuse(std::move(rank).error());
  if (repeating_) {
    if (repeats(kCopyName, *rank, 0, arguments) &&
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
  return added(std::move(status), kCopyKernel, *rank, 0, arguments);
}

// A temporary that is not as it was last time ends the repetition at the first task that names it.
ArgumentRef OrchestratorImpl::add_temporary(int rank, const Shape& shape, DType dtype) {
  const std::uint32_t number = temporaries_;
  if (static_cast<std::uint32_t>(rank) >= static_cast<std::uint32_t>(mesh_.world_size)) {
    refuse(failure(ErrorCode::invalid_argument,
                   "temporary {} names rank {}; this mesh has ranks 0 to {}", number, rank,
                   mesh_.world_size - 1)
               .with_rank(rank));
  }
  const Layout layout = tensor::contiguous_layout(dtype, shape);
  const ArgumentEntry& entry = views_.add_temporary(number, rank, layout);
  ++temporaries_;
  if (number == draft_.temporaries.size()) draft_.temporaries.push({});
  graph::Temporary& temporary = draft_.temporaries[number];
  temporary.rank = rank;
  temporary.bytes =
      (layout.extent_bytes + graph::kTemporaryAlignment - 1) & ~(graph::kTemporaryAlignment - 1);
  return {&entry, submit_, kTemporary};
}

TaskGroup OrchestratorImpl::submit_group(std::string_view kernel, std::span<const int> ranks,
                                         std::span<const TaskArgs> arguments) {
  if (Status status = check_members(kernel, ranks, arguments.size()); !status.ok())
    refuse(std::move(status));
  const auto members = static_cast<std::uint32_t>(ranks.size());
  if (repeating_) {
    if (group_repeats(kernel, ranks, arguments)) return {repeated_ - members, members, submit_};
    end_repetition();
  }
  const std::uint32_t first = draft_.task_count();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Status status = add_launch(kernel, ranks[i], arguments[i]);
    added(std::move(status), last_kernel_, ranks[i], members, arguments[i]);
  }
  if (Status status = make_group(ranks); !status.ok()) refuse(std::move(status));
  return {first, members, submit_};
}

// All of its members, or none: it begins anew where it began.
bool OrchestratorImpl::group_repeats(std::string_view kernel, std::span<const int> ranks,
                                     std::span<const TaskArgs> arguments) {
  const std::uint32_t first = repeated_;
  for (std::size_t i = 0; i < ranks.size(); ++i, ++repeated_) {
    if (repeats(kernel, ranks[i], ranks.size(), arguments[i]) && renew(arguments[i])) continue;
    repeated_ = first;
    return false;
  }
  return true;
}

Status OrchestratorImpl::check_members(std::string_view kernel, std::span<const int> ranks,
                                       std::size_t arguments) const {
  const std::uint32_t task = repeating_ ? repeated_ : draft_.task_count();
  if (ranks.empty() || ranks.size() != arguments) {
    return failure(ErrorCode::invalid_argument,
                   "the group of '{}' at task {} has {} ranks and {} arguments; give each of at "
                   "least one rank its own",
                   kernel, task, ranks.size(), arguments);
  }
  base::RankSet seen;
  for (const int rank : ranks) {
    const bool known = rank >= 0 && rank < mesh_.world_size;
    if (known && !seen.contains(rank)) {
      seen.insert(rank);
      continue;
    }
    return failure(ErrorCode::invalid_argument,
                   "the group of '{}' at task {} names rank {}{}; its members are on distinct "
                   "ranks from 0 to {}",
                   kernel, task, rank, known ? " twice" : "", mesh_.world_size - 1)
        .with_rank(rank);
  }
  for (const int rank : ranks) {
    if (mesh_.idle.contains(rank) == mesh_.idle.contains(ranks.front())) continue;
    const int idle = mesh_.idle.contains(rank) ? rank : ranks.front();
    return failure(ErrorCode::unsupported,
                   "the group of '{}' at task {} has members on ranks {} and {}, but the device of "
                   "rank {} computes nothing: the others would wait for it; leave it out",
                   kernel, task, ranks.front(), rank, idle)
        .with_rank(idle);
  }
  return {};
}

Status OrchestratorImpl::make_group(std::span<const int> ranks) {
  constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
  const std::uint32_t first = draft_.task_count() - static_cast<std::uint32_t>(ranks.size());
  frame::GroupRecord record;
  std::uint64_t hash = kernels_[last_kernel_].entry.id + kMultiplier;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const TaskRecord& task = draft_.task(first + static_cast<std::uint32_t>(i));
    for (const std::uint64_t word : {task.prepare_id, static_cast<std::uint64_t>(ranks[i])}) {
      hash = (hash ^ word) * kMultiplier;
      hash ^= hash >> 32;
    }
  }
  record.prepare_id = hash;
  if (kernels_[last_kernel_].entry.kernel->prepare != nullptr) {
    auto block = mesh_.places->group_block(hash, static_cast<int>(ranks.size()));
    if (!block) return std::move(block).error();
    record.shared = *block;
  }
  draft_.add_group(ranks, record);
  return {};
}

// Makes the run refused, also when the function swallows what is thrown.
void OrchestratorImpl::refuse(Status status) {
  if (first_failure_.ok()) first_failure_ = status;
  base::throw_error(std::move(status));
}

// The end of each task that is not repeated.
Task OrchestratorImpl::added(Status status, std::size_t kernel, int rank, std::size_t members,
                             const TaskArgs& arguments) {
  if (!status.ok()) [[unlikely]] {
    refuse(std::move(status));
  }
  ordered_ = false;
  const std::uint32_t task = draft_.task_count() - 1;
  for (const std::uint32_t earlier : arguments.afters()) draft_.afters.push({task, earlier});
  tasks_.add(kernel, rank, members, arguments.tensors(), arguments.afters());
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
    refuse(failure(ErrorCode::invalid_argument,
                   "task {} on rank {} names kernel '{}', which this mesh does not have; correct "
                   "the name, or add the kernel by Mesh::load_kernels; the mesh has: {}",
                   draft_.task_count(), rank, name, mesh_.catalog->describe())
               .with_rank(rank));
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
    if (arguments.tensors()[i].shard == kTemporary) {
      return failure(ErrorCode::stale_tensor, "argument {} of task {} ('{}') on rank {}: {}", i,
                     draft_.task_count(), kernel, rank, kStaleTemporary)
          .with_rank(rank)
          .with_argument(static_cast<int>(i));
    }
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
