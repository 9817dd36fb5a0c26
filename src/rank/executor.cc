#include "rank/executor.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "tensor/layout.h"

namespace rankcast::rank {

using base::failure;
using base::Status;
using frame::ArgumentRecord;
using frame::TaskRecord;

namespace {

// A record moves the timeline on, never back.
bool has_end(const frame::Record& record, base::TimelineValue now) noexcept {
  return record.run <= base::TimelineValue::kMaxRun &&
         record.tasks <= base::TimelineValue::kMaxTasks &&
         base::TimelineValue::make(record.run, record.tasks) > now;
}

}  // namespace

base::Result<std::unique_ptr<Executor>> Executor::create(const ExecutorOptions& options,
                                                         link::RankPort& port,
                                                         KernelRegistry& kernels) {
  std::unique_ptr<Executor> executor(new Executor(options, port, kernels));
  auto device = device::create_device(options.device, *executor);
  if (!device) return tl::unexpected(std::move(device).error());
  executor->device_ = std::move(*device);
  return executor;
}

Executor::Executor(const ExecutorOptions& options, link::RankPort& port, KernelRegistry& kernels)
    : port_(port),
      kernels_(kernels),
      run_records_(options.run_records),
      host_addresses_(options.host_addresses),
      recorder_(reinterpret_cast<frame::FlightEntry*>(
          port.shared() +
          frame::flights_offset(port.world_size(), options.run_records, port.rank()))) {}

void Executor::run() {
  for (;;) {
    const link::RecordBytes bytes = port_.next();
    const std::int64_t entry_ns = base::now_ns();
    const auto record = std::bit_cast<frame::Record>(bytes);
    if (record.kind == frame::RecordKind::stop && frame::check_record(record, port_.rank()).ok())
      return;
    if (has_answer(record)) [[likely]] {
      run_record(record, entry_ns);
    } else if (!refuse(record)) {
      return;
    }
  }
}

bool Executor::has_answer(const frame::Record& record) const noexcept {
  return record.run_record < run_records_ && has_end(record, port_.timeline());
}

// True if the lane can go on.
bool Executor::refuse(const frame::Record& record) {
  const base::TimelineValue now = port_.timeline();
  const Status status = failure(
      ErrorCode::internal,
      "damaged record: kind {}, run {} with {} tasks, run record {} of {}, after run {} with {}",
      static_cast<int>(record.kind), record.run, record.tasks, record.run_record, run_records_,
      now.run(), now.tasks());
  base::log_error("rank {}: {}", port_.rank(), status.text);
  port_.complain(status);
  if (has_end(record, now)) {
    port_.finish_unanswered(base::TimelineValue::make(record.run, record.tasks));
    return true;
  }
  port_.give_up();
  return false;
}

void Executor::run_record(const frame::Record& record, std::int64_t entry_ns) {
  frame::RunRecord* run = run_record_at(record.run_record);
  recorder_.enter(record.run, record.tasks, entry_ns);
  LaneError error;
  error.status = frame::check_record(record, port_.rank());
  if (error.status.ok()) error.status = take_side(record);
  if (error.status.ok() && record.kind == frame::RecordKind::load_kernels) {
    error.status = load_libraries();
  } else {
    if (error.status.ok()) error.status = take_frame(record);
    if (error.status.ok()) run_tasks(record, *run, &error);
  }

  frame::LaneReport& report = frame::lane_reports(run)[port_.rank()];
  report.entry_ns = entry_ns;
  report.run = record.run;
  report.error_task = error.task;
  report.error_code = static_cast<std::uint8_t>(error.status.code);
  if (!error.status.ok()) [[unlikely]] {
    report.error_argument = error.status.argument;
    const std::size_t length = std::min(error.status.text.size(), frame::kErrorTextBytes - 1);
    std::memcpy(report.error_text, error.status.text.data(), length);
    report.error_text[length] = '\0';
  }
  report.exit_ns = base::now_ns();
  recorder_.leave(report.error_code, report.exit_ns);
  port_.finish(base::TimelineValue::make(record.run, record.tasks), run->lanes_left,
               (record.flags & frame::kNotifyKeeper) != 0);
}

Status Executor::load_libraries() {
  const frame::Side& side = side_decoder_.side();
  for (const frame::LibraryRecord& library : side.libraries) {
    const LibraryPlace place{std::string(side.path_of(library)), std::to_array(library.digest),
                             library.first_kernel, library.kernel_count};
    Status status = load_library(place, kernels_);
    if (status.ok()) continue;
    status.text = fmt::format("rank {}: {}", port_.rank(), status.text);
    return status;
  }
  return {};
}

Status Executor::take_side(const frame::Record& record) {
  if (record.side.bytes == 0) {
    side_decoder_.clear();
    return {};
  }
  const std::byte* source = block(record.side);
  if (source == nullptr)
    return failure(ErrorCode::internal, "damaged record: its side block is in no segment");
  if (Status status = side_decoder_.decode(source, record.side.bytes, port_.world_size());
      !status.ok())
    return status;
  for (const frame::TableChange& change : side_decoder_.side().changes) {
    std::uint32_t users = 0;
    Status status = buffers_.apply(change, port_, *device_, &users);
    for (std::size_t i = 0; i < kKeptFrames; ++i) {
      if ((users >> i & 1) != 0) kept_[i].resolved = false;
    }
    if (!status.ok()) return status;
  }
  return {};
}

Status Executor::take_frame(const frame::Record& record) {
  const std::byte* source = block(record.frame);
  if (source == nullptr)
    return failure(ErrorCode::internal, "damaged record: its frame is in no segment");
  ++frames_taken_;
  ResolvedFrame* const kept = find_kept(source, record.frame.bytes);
  if (kept != nullptr) {
    at_hand_ = kept;
  } else {
    at_hand_ = &*std::ranges::min_element(kept_, {}, &ResolvedFrame::last_use);
    at_hand_->resolved = false;
    Status status =
        at_hand_->decoder.decode(source, record.frame.bytes, port_.rank(), port_.world_size());
    if (!status.ok()) return status;
  }
  at_hand_->last_use = frames_taken_;
  // The timeline ends where the record says: a frame of more or fewer tasks would pass it or fall
  // short.
  if (const std::size_t tasks = at_hand_->decoder.frame().tasks.size(); tasks != record.tasks) {
    return failure(ErrorCode::internal, "damaged record: it says {} tasks, its frame has {}",
                   record.tasks, tasks);
  }
  if (kept != nullptr) return {};
  Status status = resolve();
  at_hand_->resolved = status.ok();
  return status;
}

// A frame that was run before, over buffers that are where they were: what was resolved stands.
// Compared with the rank's own copy, so that only what was checked is used.
Executor::ResolvedFrame* Executor::find_kept(const std::byte* source,
                                             std::uint32_t bytes) noexcept {
  for (ResolvedFrame& kept : kept_) {
    if (kept.resolved && kept.decoder.holds(source, bytes)) return &kept;
  }
  return nullptr;
}

// Makes a DLTensor of every argument: the rank's half of the path of a dispatch.
Status Executor::resolve() {
  const frame::Frame& frame = at_hand_->decoder.frame();
  const DLDevice dl_device = device_->dl_device();

  at_hand_->layout_views.clear();
  LayoutView* const views = at_hand_->layout_views.extend(frame.layouts.size());
  for (std::size_t i = 0; i < frame.layouts.size(); ++i) {
    frame::LayoutRecord& layout = frame.layouts[i];
    views[i] = {{nullptr, dl_device, layout.dims, tensor::to_dl(layout.dtype), layout.shape.data(),
                 layout.strides.data(), 0},
                layout.extent_bytes,
                size_bytes(layout.dtype) - 1};
  }

  const std::size_t count = frame.arguments.size();
  const ArgumentRecord* const arguments = frame.arguments.data();
  at_hand_->tensors.clear();
  at_hand_->tags.clear();
  DLTensor* const tensors = at_hand_->tensors.extend(count);
  std::uint8_t* const tags = at_hand_->tags.extend(count);
  const std::span<Buffers::Entry> entries = buffers_.entries();
  const std::uint32_t user = 1u << (at_hand_ - kept_.data());
  for (std::size_t i = 0; i < count; ++i) {
    const ArgumentRecord& argument = arguments[i];
    const LayoutView& view = views[argument.layout];
    tags[i] = static_cast<std::uint8_t>(argument.tag);
    tensors[i] = view.tensor;
    if (argument.place == frame::Place::buffer && argument.slot < entries.size()) [[likely]] {
      Buffers::Entry& entry = entries[argument.slot];
      const bool good = (entry.generation == argument.generation) & (argument.generation != 0) &
                        (argument.offset <= entry.bytes) &
                        (view.extent_bytes <= entry.bytes - argument.offset) &
                        ((argument.offset & view.alignment_mask) == 0);
      if (good) [[likely]] {
        tensors[i].data = entry.address + argument.offset;
        entry.users |= user;
        continue;
      }
    }
    tensors[i].data = resolve_elsewhere(argument, view);
    if (tensors[i].data == nullptr) return resolve_failure(i);
  }

  at_hand_->scalars.clear();
  for (const frame::ScalarRecord& scalar : frame.scalars) {
    rankcast_scalar value{};
    value.type = static_cast<std::int32_t>(scalar.type);
    std::memcpy(&value.value, &scalar.bits, sizeof(value.value));
    at_hand_->scalars.push(value);
  }
  return {};
}

// Memory that is no buffer of this rank: a transfer's other end. Null if there is none.
std::byte* Executor::resolve_elsewhere(const ArgumentRecord& argument, const LayoutView& view) {
  if (argument.place == frame::Place::host && host_addresses_) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address crosses a record as a number
    return reinterpret_cast<std::byte*>(argument.offset);
  }
  if (argument.place != frame::Place::segment) return nullptr;
  std::uint64_t bytes = 0;
  std::byte* base = port_.segment(argument.slot, &bytes);
  const bool inside = base != nullptr && argument.offset <= bytes &&
                      view.extent_bytes <= bytes - argument.offset &&
                      (argument.offset & view.alignment_mask) == 0;
  return inside ? base + argument.offset : nullptr;
}

Status Executor::resolve_failure(std::size_t index) const {
  const ArgumentRecord& argument = at_hand_->decoder.frame().arguments[index];
  if (argument.place == frame::Place::segment) {
    return failure(ErrorCode::internal,
                   "damaged frame: argument {} is at {} of segment {}, which does not have it",
                   index, argument.offset, argument.slot);
  }
  if (argument.place != frame::Place::buffer) {
    return failure(ErrorCode::internal,
                   "damaged frame: argument {} is in place {}, which this link does not have",
                   index, static_cast<int>(argument.place));
  }
  const Buffers::Entry entry = buffers_.at(argument.slot);
  return failure(ErrorCode::internal,
                 "damaged frame: argument {} names slot {} generation {} at offset {}, this rank "
                 "has generation {} with {} bytes there",
                 index, argument.slot, argument.generation, argument.offset, entry.generation,
                 entry.bytes);
}

void Executor::run_tasks(const frame::Record& record, frame::RunRecord& run, LaneError* error) {
  const frame::Frame& frame = at_hand_->decoder.frame();
  const std::size_t count = frame.tasks.size();
  for (std::size_t i = 0; i < count; ++i) {
    const TaskRecord& task = frame.tasks[i];
    frame::Outcome outcome = frame::Outcome::good;
    if (!error->status.ok()) {
      outcome = frame::Outcome::poisoned;
    } else if (Status status = run_task(task, run); !status.ok()) {
      outcome = frame::Outcome::failed;
      error->status = std::move(status);
      // A kernel's own number.
      if (error->status.argument >= static_cast<int>(task.arguments.count)) {
        error->status.argument = -1;
      }
      error->status.argument = std::max(error->status.argument, -1);
      error->status.text = fmt::format("task {} ('{}') on rank {}: {}", task.task, task_name(task),
                                       port_.rank(), error->status.text);
      error->task = task.task;
    }
    if (outcome != frame::Outcome::good) [[unlikely]] {
      write_outcome(run, task.task, outcome, error);
    }
    if (task.notifies.count != 0 && i + 1 < count) {
      port_.advance(base::TimelineValue::make(record.run, i + 1));
      base::RankSet peers;
      for (const std::uint32_t lane :
           frame.notifies.subspan(task.notifies.first, task.notifies.count)) {
        if (lane < frame.header.world_size) peers.insert(static_cast<int>(lane));
      }
      port_.notify(peers);
    }
  }
}

std::string_view Executor::task_name(const TaskRecord& task) const {
  switch (task.kind) {
    case frame::TaskKind::upload:
      return "upload";
    case frame::TaskKind::download:
      return "download";
    default: {
      const KernelEntry* entry = kernels_.entry(task.kernel);
      return entry == nullptr ? std::string_view("unknown kernel") : std::string_view(entry->name);
    }
  }
}

Status Executor::run_task(const TaskRecord& task, frame::RunRecord& run) {
  return task.kind == frame::TaskKind::launch ? launch(task, run) : transfer(task);
}

Status Executor::launch(const TaskRecord& task, frame::RunRecord& run) {
  const KernelEntry* entry = kernels_.entry(task.kernel);
  if (entry == nullptr) {
    return failure(ErrorCode::internal, "damaged frame: kernel {} is unknown on this rank",
                   task.kernel);
  }
  const rankcast_kernel& kernel = entry->abi;

  rankcast_call call{};
  call.struct_size = sizeof(call);
  call.tensor_count = task.arguments.count;
  call.tensors = at_hand_->tensors.data() + task.arguments.first;
  call.tags = at_hand_->tags.data() + task.arguments.first;
  call.scalar_count = task.scalars.count;
  call.scalars = at_hand_->scalars.data() + task.scalars.first;

  rankcast_kernel_context context{};
  context.struct_size = sizeof(context);
  context.abi_version = RANKCAST_KERNEL_ABI_VERSION;
  context.rank = port_.rank();
  context.world_size = port_.world_size();
  context.stream = device_->stream();
  context.abort_word = reinterpret_cast<const std::uint32_t*>(&run.cancel);

  Preparation preparation;
  preparation.state = entry->initial_state;
  if (kernel.prepare != nullptr && device_->computes()) {
    const frame::Frame& frame = at_hand_->decoder.frame();
    prepare_layouts_.clear();
    for (const ArgumentRecord& argument :
         frame.arguments.subspan(task.arguments.first, task.arguments.count)) {
      prepare_layouts_.push(frame.layouts[argument.layout]);
    }
    std::int32_t argument = -1;
    auto prepared =
        prepared_.get(task.prepare_id, kernel, context, call, prepare_layouts_.span(), &argument);
    if (!prepared) return std::move(prepared).error().with_argument(argument);
    preparation = *prepared;
  }
  context.workspace = preparation.workspace;
  context.workspace_bytes = preparation.workspace_bytes;

  signal_.arm();
  device_->launch({&kernel, preparation.state, &context, &call}, signal_);
  return wait_for_signal();
}

Status Executor::transfer(const TaskRecord& task) {
  const frame::Frame& frame = at_hand_->decoder.frame();
  const std::uint32_t first = task.arguments.first;
  const frame::LayoutRecord& layout = frame.layouts[frame.arguments[first].layout];
  if (task.kind != frame::TaskKind::upload && task.kind != frame::TaskKind::download) {
    return failure(ErrorCode::internal, "damaged frame: task kind {} is unknown to this rank",
                   static_cast<int>(task.kind));
  }
  void* tensor = at_hand_->tensors[first].data;
  void* host = at_hand_->tensors[first + 1].data;
  const bool upload = task.kind == frame::TaskKind::upload;
  signal_.arm();
  device_->copy(upload ? tensor : host, upload ? host : tensor, layout.extent_bytes, signal_);
  return wait_for_signal();
}

Status Executor::wait_for_signal() {
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

std::byte* Executor::block(const frame::BlockRef& ref) const noexcept {
  std::uint64_t segment_bytes = 0;
  std::byte* base = port_.segment(ref.segment, &segment_bytes);
  const bool inside = base != nullptr && ref.offset % frame::kSectionAlignment == 0 &&
                      ref.offset <= segment_bytes && ref.bytes <= segment_bytes - ref.offset;
  return inside ? base + ref.offset : nullptr;
}

frame::RunRecord* Executor::run_record_at(std::uint32_t index) const noexcept {
  RC_DCHECK(index < run_records_);
  return reinterpret_cast<frame::RunRecord*>(port_.shared() +
                                             index * frame::run_record_bytes(port_.world_size()));
}

// The run record is the host's, but every rank may write it.
void Executor::write_outcome(const frame::RunRecord& run, std::uint32_t task,
                             frame::Outcome outcome, LaneError* error) const {
  const frame::BlockRef ref = run.outcomes;
  const std::uint32_t tasks = run.tasks;
  if (task >= tasks) return;
  std::byte* bytes = block(ref);
  if (bytes != nullptr && tasks <= ref.bytes) {
    bytes[task] = static_cast<std::byte>(outcome);
  } else if (error->status.code != ErrorCode::internal) {
    error->status.code = ErrorCode::internal;
    error->status.text = fmt::format(
        "damaged run record: outcomes of {} tasks in {} bytes at {} of segment {}; before that: {}",
        tasks, ref.bytes, ref.offset, ref.segment, error->status.text);
  }
}

}  // namespace rankcast::rank
