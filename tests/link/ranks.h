// What tests of links run on the ranks, and the host's end beside it.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "link/link.h"

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
  enum Kind : std::uint64_t { stop, note, act };
  std::uint64_t kind = note;
  std::uint64_t run = 0;
  std::uint64_t value = 0;
  std::uint64_t flags = 0;
  std::uint64_t unused[4] = {};
};
static_assert(sizeof(Message) == sizeof(RecordBytes));

/// The main function of a rank in these tests, and what it has seen. `act` is what a test wants
/// done for Message::act.
class Ranks {
 public:
  using Act = std::function<void(RankPort&, const Message&)>;

  explicit Ranks(int world_size, Act act = {})
      : act_(std::move(act)),
        seen_(static_cast<std::size_t>(world_size)),
        ports_(static_cast<std::size_t>(world_size)) {}

  void main(RankPort& port) {
    {
      const std::lock_guard lock(mutex_);
      ports_[static_cast<std::size_t>(port.rank())] = &port;
    }
    port.report({});
    for (;;) {
      const RecordBytes bytes = port.next();
      const auto message = std::bit_cast<Message>(bytes);
      if (message.kind == Message::stop) return;
      if (message.kind == Message::act) act_(port, message);
      {
        const std::lock_guard lock(mutex_);
        seen_[static_cast<std::size_t>(port.rank())].push_back(message.value);
      }
      base::Countdown alone;  // each rank is its runs' last lane
      alone.arm(message.run, 1);
      port.finish(base::TimelineValue::make(message.run, 1), alone, message.flags != 0);
    }
  }

  std::vector<std::uint64_t> seen(int rank) const {
    const std::lock_guard lock(mutex_);
    return seen_[static_cast<std::size_t>(rank)];
  }
  RankPort& port(int rank) const {
    const std::lock_guard lock(mutex_);
    return *ports_[static_cast<std::size_t>(rank)];
  }

 private:
  Act act_;
  mutable std::mutex mutex_;
  std::vector<std::vector<std::uint64_t>> seen_;  // by rank
  std::vector<RankPort*> ports_;                  // by rank; good while the rank runs
};

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
