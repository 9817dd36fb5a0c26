// The one loop that every link runs: take a record, check it, apply its table changes, run its
// frame, retire.
//
//   record -> table changes -> frame copied and checked -> arguments resolved -> for each task:
//   launch, signal, retire
//          -> report of the lane, timeline, wake-ups
//
// One rank, one executor, one thread. Nothing on the path of a good frame allocates once it has
// grown.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/scratch.h"
#include "base/status.h"
#include "device/device.h"
#include "frame/decode.h"
#include "frame/flight_recorder.h"
#include "frame/records.h"
#include "link/rank_port.h"
#include "rank/buffers.h"
#include "rank/kernel_registry.h"
#include "rank/prepared.h"

namespace rankcast::rank {

/// What a rank is told once, when it starts.
struct ExecutorOptions {
  device::DeviceSpec device;
  std::uint32_t run_records = 0;  // run records in the shared area
  bool host_addresses = true;     // the rank is a part of the host's process
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
  /// How a lane's part of a run went wrong first; code 0: it did not.
  struct LaneError {
    base::Status status;
    std::uint32_t task = frame::kNone;
  };

  /// What all arguments of one layout have in common.
  struct LayoutView {
    DLTensor tensor;  // without data
    std::uint64_t extent_bytes = 0;
    std::uint64_t alignment_mask = 0;  // of offsets
  };

  /// A frame in the rank's own memory, its arguments resolved: one entry an argument, a layout, a
  /// scalar.
  struct ResolvedFrame {
    frame::FrameDecoder decoder;
    base::Scratch<DLTensor> tensors;
    base::Scratch<std::uint8_t> tags;
    base::Scratch<LayoutView> layout_views;
    base::Scratch<rankcast_scalar> scalars;
    std::uint64_t last_use = 0;  // number of the frame taken then
    bool resolved = false;       // all of this is of the decoder's frame and the table as it is
  };

  /// Frames kept: a step of a program and the transfers around it.
  static constexpr std::size_t kKeptFrames = 4;

  Executor(const ExecutorOptions& options, link::RankPort& port, KernelRegistry& kernels);

  void on_signal() noexcept override { port_.wake(); }

  bool has_answer(const frame::Record& record) const noexcept;
  [[gnu::cold]] bool refuse(const frame::Record& record);
  void run_record(const frame::Record& record, std::int64_t entry_ns);
  base::Status take_side(const frame::Record& record);
  base::Status load_libraries();
  base::Status take_frame(const frame::Record& record);
  ResolvedFrame* find_kept(const std::byte* source, std::uint32_t bytes) noexcept;
  base::Status resolve();
  std::byte* resolve_elsewhere(const frame::ArgumentRecord& argument, const LayoutView& view);
  [[gnu::cold]] base::Status resolve_failure(std::size_t index) const;
  void run_tasks(const frame::Record& record, frame::RunRecord& run, LaneError* error);
  std::string_view task_name(const frame::TaskRecord& task) const;
  base::Status run_task(const frame::TaskRecord& task, frame::RunRecord& run);
  base::Status launch(const frame::TaskRecord& task, frame::RunRecord& run);
  base::Status transfer(const frame::TaskRecord& task);
  base::Status wait_for_signal();
  std::byte* block(const frame::BlockRef& ref) const noexcept;
  frame::RunRecord* run_record_at(std::uint32_t index) const noexcept;
  [[gnu::cold]] void write_outcome(const frame::RunRecord& run, std::uint32_t task,
                                   frame::Outcome outcome, LaneError* error) const;

  link::RankPort& port_;     // borrowed from the rank's main function
  KernelRegistry& kernels_;  // borrowed likewise
  std::uint32_t run_records_;
  bool host_addresses_;
  std::unique_ptr<device::Device> device_;
  Buffers buffers_;
  PreparedKernels prepared_;
  frame::SideDecoder side_decoder_;
  frame::FlightRecorder recorder_;
  device::Signal signal_;
  std::array<ResolvedFrame, kKeptFrames> kept_;
  ResolvedFrame* at_hand_ = kept_.data();  // the frame that is run
  std::uint64_t frames_taken_ = 0;
  base::Scratch<frame::LayoutRecord> prepare_layouts_;
};

}  // namespace rankcast::rank
