// The host's end of run records: what ranks wrote about a run, checked before it is used.
//
// A rank may be another process, and it may be damaged. A report that cannot be becomes an error
// `internal` that names the rank; nothing that is read here leads outside of memory, whatever was
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "frame/records.h"

namespace rankcast::frame {

/// What the host knows by itself of one lane's part of a run.
struct LaneFacts {
  std::uint64_t run = 0;
  int rank = 0;
  std::int64_t begin_ns = 0;                 // the run was published later than this
  std::int64_t now_ns = 0;                   // after the lane's timeline was seen at its end
  std::span<const TaskRecord> tasks = {};    // that the host gave the lane
  std::span<const std::byte> outcomes = {};  // of the whole run: may be written while it is read
};

/// How a lane's part of a run ended.
struct LaneEnd {
  std::int64_t entry_ns = 0;
  std::int64_t exit_ns = 0;
  std::uint32_t error_task = kNone;  // number in the run; kNone: none, or no task's
  base::Status error;                // what the rank says, or `internal`: what cannot be
};

/// Reads a lane's report once its timeline has passed the run. Allocates for an error alone.
LaneEnd read_report(const LaneReport& report, const LaneFacts& facts);

/// The tasks, arguments, layouts and groups of a frame that this process wrote, in memory that no
/// rank writes.
std::span<const TaskRecord> tasks_of(const std::byte* own_frame) noexcept;
std::span<const ArgumentRecord> arguments_of(const std::byte* own_frame) noexcept;
std::span<const LayoutRecord> layouts_of(const std::byte* own_frame) noexcept;
std::span<const GroupRecord> groups_of(const std::byte* own_frame) noexcept;
/// What one of them waits for.
std::span<const WaitRecord> waits_of(const std::byte* own_frame, const TaskRecord& task) noexcept;
/// The waits on other runs of a side block that this process wrote.
std::span<const RunWait> run_waits_of(const std::byte* own_side) noexcept;

}  // namespace rankcast::frame
