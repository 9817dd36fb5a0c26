// What tests of links run on the ranks, and the host's end beside it. On every link the same code:
// in a thread of the test, or in the program tests/link/rank.cc. What a rank does is said by
// messages, and what it saw lies in memory that both share.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <string_view>
#include <thread>

#include "link/link.h"
#include "link/rank_port.h"

namespace rankcast::link {

inline constexpr std::int64_t kHangLimitNs = 60'000'000'000;
inline base::Deadline hang_limit() { return base::Deadline::after(kHangLimitNs); }

template <class Condition>
bool eventually(Condition condition) {
  const base::Deadline deadline = hang_limit();
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

/// What a test sends: which of the things below to do, and numbers for it.
struct Message {
  enum Kind : std::uint64_t {
    stop,
    note,         // nothing
    add,          // to each of the first `extra` bytes of segment `value`: 1 + rank
    probe,        // Area::found = bytes of segment `value` as the rank reaches it, 0 if it does not
    poke,         // byte `value` of Area::bytes = rank + 1
    wait_inside,  // inside a frame, until Area::word is `value` or more
    wait_hard,    // the same without sleeping: nothing wakes it
    print,        // "value of rank" to both streams
    crash,        // the process kills itself
    leave,        // the process ends with status `value`
  };
  std::uint64_t kind = note;
  std::uint64_t run = 0;
  std::uint64_t value = 0;
  std::uint64_t flags = 0;
  std::uint64_t extra = 0;
  std::uint64_t unused[3] = {};
};
static_assert(sizeof(Message) == sizeof(RecordBytes));

/// What a rank is told first (RankStart::hello).
inline constexpr std::string_view kGood = "good";
inline constexpr std::string_view kFails = "fails";
inline constexpr std::string_view kSilent = "silent";      // until Area::word is not 0
inline constexpr std::string_view kNonsense = "nonsense";  // in the control memory
inline constexpr std::string_view kLeaves = "leaves";      // exits with status 4

/// The memory that host and ranks share in these tests.
struct Area {
  static constexpr std::size_t kMost = 6000;

  struct OfRank {
    std::int64_t rank = -1;
    std::int64_t world_size = -1;
    std::uint64_t found = 0;  // by probe
    std::atomic<std::uint64_t> count{0};
    std::array<std::uint64_t, kMost> seen{};  // the value of each message, in order
  };

  std::atomic<std::uint64_t> word{0};
  std::array<std::byte, 1000> bytes{};

  /// Behind the area.
  OfRank& of(int rank) { return reinterpret_cast<OfRank*>(this + 1)[rank]; }

  static std::uint64_t bytes_needed(int world_size) {
    return sizeof(Area) + static_cast<std::uint64_t>(world_size) * sizeof(OfRank);
  }
  static Area& at(std::byte* shared) { return *reinterpret_cast<Area*>(shared); }
};

/// The main function of a rank in these tests.
void test_rank_main(std::string_view hello, RankPort& port) noexcept;

inline void write(Link& link, int rank, const Message& message) {
  link.ring(rank).write(std::bit_cast<RecordBytes>(message));
}

/// One message to one rank, and the bell.
inline int send(Link& link, int rank, const Message& message) {
  write(link, rank, message);
  link.ring(rank).publish();
  return link.control().doorbell().ring_asleep(base::RankSet::of(rank));
}

inline void tell_to_stop(Link& link) {
  link.expect_ends();
  for (int rank = 0; rank < link.world_size(); ++rank) send(link, rank, {.kind = Message::stop});
}

inline bool wait_for_run(Link& link, int rank, std::uint64_t run) {
  const auto reached = [&]() noexcept {
    return link.timeline(rank).reached(base::TimelineValue::make(run, 1));
  };
  return link.control().waiters().wait(reached, link.spin(), hang_limit()) ==
         base::WaitResult::ready;
}

}  // namespace rankcast::link
