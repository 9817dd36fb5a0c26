// The one loop that every link runs: take a record, check it, apply its table changes, run its
// frame, retire.
//
//   record -> table changes -> frame copied, checked, its arguments resolved (rank/frames.h)
//          -> its tasks, one after the other (rank/task_runner.h)
//          -> report of the lane, timeline, wake-ups
//
// One rank, one executor, one thread. Nothing on the path of a good frame allocates once it has
// grown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/status.h"
#include "device/device.h"
#include "frame/decode.h"
#include "frame/flight_recorder.h"
#include "frame/records.h"
#include "frame/shared_area.h"
#include "link/rank_port.h"
#include "rank/buffers.h"
#include "rank/frames.h"
#include "rank/kernel_registry.h"
#include "rank/task_runner.h"
#include "rank/undefined.h"

namespace rankcast::rank {

/// What a rank is told once, when it starts.
struct ExecutorOptions {
  device::DeviceSpec device;
  std::uint32_t run_records = 0;  // run records in the shared area
  bool host_addresses = true;     // the rank is a part of the host's process
  bool tells_tasks = false;       // it says which task it is at, for the watchdog
};

class Executor final : device::SignalSink {
 public:
  /// Makes the device. Fails with what the device says. `port` and `kernels` are borrowed: they
  /// outlive the executor.
  static base::Result<std::unique_ptr<Executor>> create(const ExecutorOptions& options,
                                                        link::RankPort& port,
                                                        KernelRegistry& kernels);

  /// Runs until a stop record comes. Records lie where other ranks may write. One that is damaged
  /// fails its run with `internal`, in its run record. One that names no run record of the mesh is
  /// skipped, its timeline moved to where it says, and told through the channel. After one that
  /// would move the timeline back, or nowhere that a timeline can be, the lane cannot go on: the
  /// rank gives up.
  void run();

 private:
  Executor(const ExecutorOptions& options, link::RankPort& port, KernelRegistry& kernels);

  void on_signal() noexcept override { port_.wake(); }

  bool has_answer(const frame::Record& record) const noexcept;
  [[gnu::cold]] bool refuse(const frame::Record& record);
  void run_record(const frame::Record& record, std::int64_t entry_ns);
  base::Status take_side(const frame::Record& record);
  base::Status load_libraries();
  void run_frame(const frame::Record& record, frame::RunRecord& run, LaneError* error);

  link::RankPort& port_;     // borrowed from the rank's main function
  KernelRegistry& kernels_;  // borrowed likewise
  const frame::SharedArea area_;
  std::unique_ptr<device::Device> device_;
  Buffers buffers_;
  Undefined undefined_;
  Frames frames_;
  std::optional<TaskRunner> runner_;  // once there is a device
  frame::SideDecoder side_decoder_;
  frame::FlightRecorder recorder_;
};

}  // namespace rankcast::rank
