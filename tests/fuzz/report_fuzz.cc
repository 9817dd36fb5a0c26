// Whatever a rank writes about a run, the host reads times that can be and an error that can be, or
// says `internal` and names the rank.
//
// The input: one byte an outcome of eight tasks, then the lane's report.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/untrusted.h"
#include "frame/report.h"

namespace {

using namespace rankcast;

constexpr int kRank = 3;
constexpr std::int64_t kBegin = 1'000'000;
constexpr std::int64_t kNow = 2'000'000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::byte, 8> outcomes{};
  const std::size_t head = std::min(size, outcomes.size());
  if (head != 0) std::memcpy(outcomes.data(), data, head);
  frame::LaneReport report;
  report.run = 7;
  const std::size_t rest = std::min(size - head, sizeof(report));
  if (rest != 0) std::memcpy(static_cast<void*>(&report), data + head, rest);

  std::array<frame::TaskRecord, 3> tasks{};
  for (std::uint32_t i = 0; i < tasks.size(); ++i) {
    tasks[i].task = 2 * i + 1;
    tasks[i].arguments.count = i;
  }
  const frame::LaneEnd end = frame::read_report(report, {.run = 7,
                                                         .rank = kRank,
                                                         .begin_ns = kBegin,
                                                         .now_ns = kNow,
                                                         .tasks = tasks,
                                                         .outcomes = outcomes});
  RC_CHECK(kBegin <= end.entry_ns && end.entry_ns <= end.exit_ns && end.exit_ns <= kNow);
  if (end.error.ok()) return 0;
  RC_CHECK(base::error_code_of(static_cast<std::uint32_t>(end.error.code)).has_value());
  RC_CHECK(end.error.rank == kRank && end.error.argument >= -1 && end.error.argument < 2);
  RC_CHECK(end.error_task == frame::kNone || end.error_task % 2 == 1);
  // Shown again, a text stays as it is.
  RC_CHECK(base::printable(end.error.text.data(), end.error.text.size()) == end.error.text);
  return 0;
}
