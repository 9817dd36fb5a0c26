// The flight recorder: each rank's last dispatches, in memory that outlives the rank.
//
// One ring of entries a rank, in the area that host and ranks share (frame/shared_area.h). The rank
// writes one cache line at the entry of a dispatch and the same line at its exit. The host reads at
// any time, also when the rank is gone: an entry that is being written is left out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/atomic.h"
#include "frame/records.h"

namespace rankcast::frame {

inline constexpr std::size_t kFlights = 256;  // of each rank

/// One dispatch of one rank. All zero bytes: none yet.
///
/// A seqlock: the stamp is odd while the other members change. The release store of each carries
/// the odd stamp along, so a reader that has seen any new value finds the stamp changed.
struct alignas(base::kCacheLine) FlightEntry {
  template <class T>
  using Word = std::atomic<T>;

  // All. Written by: the rank. Read by: the host. Ordered by: release and acquire (pairs:
  // flight-entry).
  Word<std::uint64_t> stamp{0};  // 4 x number + 1 writing, + 2 entered, + 3 writing, + 4 left
  Word<std::uint64_t> run{0};
  Word<std::int64_t> entry_ns{0};
  Word<std::int64_t> exit_ns{0};
  Word<std::uint32_t> tasks{0};
  Word<std::uint32_t> error_code{0};
  Word<std::uint32_t> kind{0};  // a RecordKind
  // 1 + ordinal of the task that the rank is at; 0: before its first, or it does not tell.
  Word<std::uint32_t> at_task{0};
};
static_assert(sizeof(FlightEntry) == base::kCacheLine);

/// The rank's end. Used by its thread alone. A successor goes on where its predecessor ended.
class FlightRecorder {
 public:
  /// `entries`: kFlights of them, borrowed from the shared area, which outlives the rank.
  /// `tells_tasks`: at_task is written, for a watchdog that asks where the rank is.
  explicit FlightRecorder(FlightEntry* entries, bool tells_tasks = false) noexcept;

  /// The rank has taken this record.
  void enter(const Record& record, std::int64_t entry_ns) noexcept;
  /// It comes to a task of the frame at hand, which may wait before it starts. One store into the
  /// entry's line; one predictable branch where nobody asks.
  void at_task(std::uint32_t ordinal) noexcept {
    if (!tells_tasks_) return;
    base::store_release(entries_[number_ % kFlights].at_task, ordinal + 1);  // pairs: flight-entry
  }
  /// It is done with it. `error_code`: of the lane's report; 0: good.
  void leave(std::uint32_t error_code, std::int64_t exit_ns) noexcept;

 private:
  FlightEntry* entries_;
  bool tells_tasks_;
  std::uint64_t number_ = 0;  // of the dispatch at hand
};

/// One dispatch as it was read.
struct Flight {
  std::uint64_t run = 0;
  std::uint32_t tasks = 0;
  bool loads_kernels = false;  // it is no program's run
  bool left = false;           // false: the rank had not come to its end
  std::uint32_t error_code = 0;
  std::uint32_t task = kNone;  // ordinal of the task that it came to last, where the rank tells
  std::int64_t entry_ns = 0;
  std::int64_t exit_ns = 0;  // once left
};

/// The last dispatches of a rank, at most `most`, the newest first. Any thread. Values are checked
/// for nothing: what a rank wrote may be nonsense.
std::vector<Flight> read_flights(const FlightEntry* entries, std::size_t most);

/// "1.2 ms": between two readings of the clock, which may be any numbers.
std::string duration_text(std::int64_t from_ns, std::int64_t to_ns);

/// "run 812 (3 tasks) entered 1.2 ms before and not left; run 811 (kernel library) good, 3.1 us";
/// empty for none. `now_ns`: what "before" counts from.
std::string describe_flights(std::span<const Flight> flights, std::int64_t now_ns);

}  // namespace rankcast::frame
