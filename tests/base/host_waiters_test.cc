#include "base/host_waiters.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/timeline.h"

namespace rankcast::base {
namespace {

constexpr std::int64_t kHangLimitNs = 120'000'000'000;

TEST(HostWaitersTest, NotifyWithoutWaitersIsNoWake) {
  HostWaiters host;
  EXPECT_EQ(host.notify(), 0);
  EXPECT_EQ(host.count(), 0u);
}

TEST(HostWaitersTest, ReadyAtOnceDoesNotCount) {
  HostWaiters host;
  std::uint32_t counted = 9;
  const auto ready = [&] {
    counted = host.count();
    return true;
  };
  EXPECT_EQ(host.wait(ready, SpinPolicy{}, Deadline::never()), WaitResult::ready);
  EXPECT_EQ(counted, 0u);
}

TEST(HostWaitersTest, DeadlineEndsTheWaitAndLowersTheCount) {
  HostWaiters host;
  std::uint32_t counted = 0;
  const auto never = [&] {
    counted = host.count();
    return false;
  };
  EXPECT_EQ(host.wait(never, SpinPolicy::none(), Deadline::after(1'000'000)),
            WaitResult::timed_out);
  EXPECT_EQ(counted, 1u);
  EXPECT_EQ(host.count(), 0u);
}

TEST(HostWaitersTest, ManyWaitersOfTwoTimelines) {
  constexpr std::uint64_t kRuns = 2'000;
  HostWaiters host;
  Timeline first;
  Timeline second;
  std::atomic<int> timeouts{0};
  std::vector<std::thread> threads;
  threads.reserve(5);
  for (int waiter = 0; waiter < 3; ++waiter) {
    threads.emplace_back([&] {
      for (std::uint64_t run = 1; run <= kRuns; ++run) {
        const TimelineValue value = TimelineValue::make(run, 1);
        const auto ready = [&] { return first.reached(value) && second.reached(value); };
        timeouts += host.wait(ready, SpinPolicy::none(), Deadline::after(kHangLimitNs)) ==
                    WaitResult::timed_out;
      }
    });
  }
  for (Timeline* timeline : {&first, &second}) {
    threads.emplace_back([&host, timeline] {
      for (std::uint64_t run = 1; run <= kRuns; ++run) {
        timeline->advance(TimelineValue::make(run, 1));
        host.notify();
        if (run % 8 == 0) std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(timeouts, 0);
  EXPECT_EQ(host.count(), 0u);
}

}  // namespace
}  // namespace rankcast::base
