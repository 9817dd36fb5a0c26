#include "frame/report.h"

#include <algorithm>
#include <cstring>

#include "base/untrusted.h"

namespace rankcast::frame {
namespace {

using base::failure;
using base::Status;

/// Where the error of a report belongs.
struct ErrorPlace {
  std::uint32_t code;
  std::uint32_t task;
  std::int32_t argument;
};

Status check_place(const ErrorPlace& place, const LaneFacts& facts) {
  if (!base::error_code_of(place.code)) {
    return failure(ErrorCode::internal, "rank {} reports error code {}, which is none", facts.rank,
                   place.code);
  }
  std::size_t arguments = 0;
  if (place.task != kNone) {
    const auto task = std::ranges::find(facts.tasks, place.task, &TaskRecord::task);
    if (task == facts.tasks.end()) {
      return failure(ErrorCode::internal, "rank {} reports an error of task {}, which it has not",
                     facts.rank, place.task);
    }
    arguments = task->arguments.count;
  }
  if (place.argument < -1 ||
      (place.argument >= 0 && static_cast<std::size_t>(place.argument) >= arguments)) {
    return failure(ErrorCode::internal,
                   "rank {} reports an error of argument {} of task {}, which has {}", facts.rank,
                   place.argument, place.task, arguments);
  }
  return {};
}

Status check_outcomes(const LaneFacts& facts) {
  for (const TaskRecord& task : facts.tasks) {
    if (task.task >= facts.outcomes.size()) continue;
    const auto outcome = std::to_integer<int>(facts.outcomes[task.task]);
    if (outcome > static_cast<int>(Outcome::rank_lost)) {
      return failure(ErrorCode::internal, "rank {} wrote outcome {} of task {}, which is none",
                     facts.rank, outcome, task.task);
    }
  }
  return {};
}

[[gnu::cold]] LaneEnd damaged(const LaneFacts& facts, Status status) {
  LaneEnd end{facts.begin_ns, facts.begin_ns, kNone, std::move(status)};
  end.error.rank = facts.rank;
  return end;
}

}  // namespace

LaneEnd read_report(const LaneReport& report, const LaneFacts& facts) {
  const std::uint64_t run = report.run;
  LaneEnd end{report.entry_ns, report.exit_ns, kNone, {}};
  if (run != facts.run) [[unlikely]] {
    return damaged(facts, failure(ErrorCode::internal,
                                  "rank {} says that it is done, but left no report", facts.rank));
  }
  if (end.entry_ns < facts.begin_ns || end.exit_ns < end.entry_ns || facts.now_ns < end.exit_ns)
      [[unlikely]] {
    return damaged(facts,
                   failure(ErrorCode::internal,
                           "rank {} reports times that cannot be: entered at {}, left at {} "
                           "ns, submitted at {}, read at {}",
                           facts.rank, end.entry_ns, end.exit_ns, facts.begin_ns, facts.now_ns));
  }
  if (report.error_code == 0) [[likely]] {
    return end;
  }
  const ErrorPlace place{report.error_code, report.error_task, report.error_argument};
  Status status = check_place(place, facts);
  if (status.ok()) status = check_outcomes(facts);
  if (!status.ok()) return damaged(facts, std::move(status));
  end.error_task = place.task;
  end.error.code = static_cast<ErrorCode>(place.code);
  end.error.rank = facts.rank;
  end.error.argument = place.argument;
  end.error.text = base::printable(report.error_text, kErrorTextBytes);
  return end;
}

namespace {

template <class T>
std::span<const T> section_of(const std::byte* frame, Section FrameHeader::* section) noexcept {
  const Section& place = reinterpret_cast<const FrameHeader*>(frame)->*section;
  return {reinterpret_cast<const T*>(frame + place.offset), place.count};
}

}  // namespace

std::span<const TaskRecord> tasks_of(const std::byte* own_frame) noexcept {
  return section_of<TaskRecord>(own_frame, &FrameHeader::tasks);
}
std::span<const ArgumentRecord> arguments_of(const std::byte* own_frame) noexcept {
  return section_of<ArgumentRecord>(own_frame, &FrameHeader::arguments);
}
std::span<const GroupRecord> groups_of(const std::byte* own_frame) noexcept {
  return section_of<GroupRecord>(own_frame, &FrameHeader::groups);
}
std::span<const LayoutRecord> layouts_of(const std::byte* own_frame) noexcept {
  return section_of<LayoutRecord>(own_frame, &FrameHeader::layouts);
}

std::span<const WaitRecord> waits_of(const std::byte* own_frame, const TaskRecord& task) noexcept {
  const auto* header = reinterpret_cast<const FrameHeader*>(own_frame);
  return {reinterpret_cast<const WaitRecord*>(own_frame + header->waits.offset) + task.waits.first,
          task.waits.count};
}

std::span<const RunWait> run_waits_of(const std::byte* own_side) noexcept {
  const auto* header = reinterpret_cast<const SideHeader*>(own_side);
  return {reinterpret_cast<const RunWait*>(own_side + header->waits.offset), header->waits.count};
}

}  // namespace rankcast::frame
