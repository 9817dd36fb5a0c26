// Runs the tasks of one frame, in their order: waits for what comes before a task, starts it or
// does not, and moves the lane's timeline over it.
//
//   waits (other runs, other lanes) -> verdict: start, poisoned, cancelled
//   -> reads of what is undefined -> launch or copy, signal -> outcome, what is undefined now
//   -> timeline, where another lane waits for the task
//
// A task that does not start still waits for all that comes before it: whoever comes after it on
// this lane relies on that.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/scratch.h"
#include "base/status.h"
#include "device/device.h"
#include "frame/decode.h"
#include "frame/flight_recorder.h"
#include "frame/records.h"
#include "link/rank_port.h"
#include "rank/buffers.h"
#include "rank/frames.h"
#include "rank/kernel_registry.h"
#include "rank/prepared.h"
#include "rank/undefined.h"

namespace rankcast::rank {

/// How a lane's part of a run went wrong first; success if it did not.
struct LaneError {
  base::Status status;
  std::uint32_t task = frame::kNone;
};

/// The memory of a block that a record or run record names; null when it is in no segment.
std::byte* find_block(link::RankPort& port, const frame::BlockRef& ref) noexcept;

/// Used by the rank's thread alone. Nothing on the path of a good frame allocates once it has
/// grown.
class TaskRunner {
 public:
  /// All are borrowed: they outlive this.
  TaskRunner(link::RankPort& port, KernelRegistry& kernels, device::Device& device,
             const Buffers& buffers, Undefined& undefined, frame::FlightRecorder& recorder) noexcept
      : port_(port),
        kernels_(kernels),
        device_(device),
        buffers_(buffers),
        undefined_(undefined),
        recorder_(recorder) {}

  /// `waits`: on other runs. Says in `error` what went wrong first.
  void run(const ResolvedFrame& resolved, const frame::Record& record,
           std::span<const frame::RunWait> waits, frame::RunRecord& run, LaneError* error);

 private:
  /// The run at hand.
  struct AtHand {
    const ResolvedFrame* resolved = nullptr;
    const frame::Record* record = nullptr;
    frame::RunRecord* run = nullptr;
    LaneError* error = nullptr;
    std::span<const frame::RunWait> waits;  // not met yet
  };

  void wait_for_earlier(const frame::TaskRecord& task, std::size_t ordinal) noexcept;
  frame::Outcome verdict(const frame::TaskRecord& task);
  std::byte outcome_of(std::uint32_t task);
  std::span<const frame::ArgumentRecord> arguments_of(const frame::TaskRecord& task) const noexcept;
  frame::Region region_of(const frame::ArgumentRecord& argument) const noexcept;
  base::Status check_reads(const frame::TaskRecord& task) const;
  [[gnu::cold]] void note_writes(const frame::TaskRecord& task, frame::Outcome outcome);
  base::Status run_task(const frame::TaskRecord& task);
  base::Status launch(const frame::TaskRecord& task);
  base::Status start(const rankcast_kernel& kernel, const Preparation& preparation,
                     rankcast_kernel_context& context, const rankcast_call& call);
  rankcast_call call_of(const frame::TaskRecord& task) const noexcept;
  rankcast_kernel_context context_of() const noexcept;
  base::Status transfer(const frame::TaskRecord& task);
  base::Status wait_for_signal();
  // Groups (task_groups.cc).
  frame::Outcome run_member(const frame::TaskRecord& task, frame::Outcome verdict,
                            base::Status* status);
  base::GroupDecision vote(base::GroupVote& vote, base::GroupBallot ballot,
                           std::span<const std::uint32_t> members) noexcept;
  base::Status run_in_group(const frame::TaskRecord& task, frame::GroupWords& words, bool anew);
  base::Status prepare_member(const frame::TaskRecord& task, frame::GroupWords& words, bool anew,
                              rankcast_kernel_context& context, Preparation* preparation);
  [[gnu::cold]] void end_badly(const frame::TaskRecord& task, std::size_t ordinal,
                               frame::Outcome outcome, base::Status status);
  [[gnu::cold]] void write_outcome(std::uint32_t task, frame::Outcome outcome);
  void notify(const frame::TaskRecord& task, std::size_t ordinal) noexcept;
  bool cancelled() const noexcept;
  std::string_view task_name(const frame::TaskRecord& task) const;

  link::RankPort& port_;
  KernelRegistry& kernels_;
  device::Device& device_;
  const Buffers& buffers_;
  Undefined& undefined_;
  frame::FlightRecorder& recorder_;
  PreparedKernels prepared_;
  device::Signal signal_;
  AtHand at_hand_;
  bool any_bad_ = false;
  base::Scratch<frame::Outcome> outcomes_;  // by ordinal, once any is bad
  base::Scratch<frame::LayoutRecord> prepare_layouts_;
  base::Scratch<std::int32_t> members_;  // of the group at hand
  base::Scratch<void*> peer_shared_;     // likewise
};

}  // namespace rankcast::rank
