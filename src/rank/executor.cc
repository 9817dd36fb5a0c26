#include "rank/executor.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/fixed_text.h"
#include "base/log.h"

namespace rankcast::rank {

using base::failure;
using base::Status;

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
  executor->runner_.emplace(port, kernels, *executor->device_, executor->buffers_,
                            executor->undefined_, executor->recorder_);
  return executor;
}

Executor::Executor(const ExecutorOptions& options, link::RankPort& port, KernelRegistry& kernels)
    : port_(port),
      kernels_(kernels),
      area_(port.shared(), port.world_size(), options.run_records),
      undefined_(area_, port.rank()),
      frames_(port, buffers_, options.host_addresses),
      recorder_(area_.flights(port.rank()), options.tells_tasks) {}

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
  return record.run_record < area_.run_records() && has_end(record, port_.timeline());
}

// True if the lane can go on.
bool Executor::refuse(const frame::Record& record) {
  const base::TimelineValue now = port_.timeline();
  const Status status = failure(
      ErrorCode::internal,
      "damaged record: kind {}, run {} with {} tasks, run record {} of {}, after run {} with {}",
      static_cast<int>(record.kind), record.run, record.tasks, record.run_record,
      area_.run_records(), now.run(), now.tasks());
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
  frame::RunRecord* run = area_.run_record(record.run_record);
  recorder_.enter(record, entry_ns);
  LaneError error;
  error.status = frame::check_record(record, port_.rank());
  if (error.status.ok()) error.status = take_side(record);
  if (error.status.ok() && record.kind == frame::RecordKind::load_kernels) {
    error.status = load_libraries();
  } else {
    if (error.status.ok()) run_frame(record, *run, &error);
  }

  // Tasks of other lanes that need one of this frame must not take it for done.
  if (!error.status.ok() && error.task == frame::kNone) [[unlikely]] {
    base::store_seq_cst(run->cancel, 1u);
  }

  frame::LaneReport& report = frame::lane_reports(run)[port_.rank()];
  report.entry_ns = entry_ns;
  report.run = record.run;
  report.error_task = error.task;
  report.error_code = static_cast<std::uint8_t>(error.status.code);
  if (!error.status.ok()) [[unlikely]] {
    report.error_argument = error.status.argument;
    base::copy_text(error.status.text, report.error_text);
  }
  report.exit_ns = base::now_ns();
  recorder_.leave(report.error_code, report.exit_ns);
  port_.finish(base::TimelineValue::make(record.run, record.tasks), run->lanes_left,
               (record.flags & frame::kNotifyKeeper) != 0);
}

void Executor::run_frame(const frame::Record& record, frame::RunRecord& run, LaneError* error) {
  const std::byte* source = find_block(port_, record.frame);
  if (source == nullptr) {
    error->status = failure(ErrorCode::internal, "damaged record: its frame is in no segment");
    return;
  }
  auto resolved = frames_.take(record, source, frame::lane_reports(&run), *device_);
  if (!resolved) {
    error->status = std::move(resolved).error();
    return;
  }
  runner_->run(**resolved, record, side_decoder_.side().waits, run, error);
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
  const std::byte* source = find_block(port_, record.side);
  if (source == nullptr)
    return failure(ErrorCode::internal, "damaged record: its side block is in no segment");
  if (Status status = side_decoder_.decode(source, record.side.bytes, port_.world_size());
      !status.ok())
    return status;
  for (const frame::TableChange& change : side_decoder_.side().changes) {
    if (!undefined_.empty()) [[unlikely]] {
      const Buffers::Place place = buffers_.place(change.slot);
      undefined_.forget(place.segment, place.offset, place.bytes);
    }
    std::uint32_t users = 0;
    Status status = buffers_.apply(change, port_, *device_, &users);
    frames_.forget(users);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace rankcast::rank
