#include "base/countdown.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace rankcast::base {
namespace {

TEST(CountdownTest, OnlyTheLastLaneIsLast) {
  Countdown lanes_left;
  lanes_left.arm(5, 3);
  EXPECT_FALSE(lanes_left.count_down(5));
  EXPECT_FALSE(lanes_left.count_down(5));
  EXPECT_TRUE(lanes_left.count_down(5));
}

TEST(CountdownTest, CountsPastTheEndFallOnNothing) {
  Countdown lanes_left;
  EXPECT_FALSE(lanes_left.count_down(0));
  lanes_left.arm(5, 1);
  EXPECT_TRUE(lanes_left.count_down(5));
  EXPECT_FALSE(lanes_left.count_down(5));
}

TEST(CountdownTest, CountsOfAnotherRunFallOnNothing) {
  Countdown lanes_left;
  lanes_left.arm(6, 1);
  EXPECT_FALSE(lanes_left.count_down(5));
  EXPECT_FALSE(lanes_left.count_down(7));
  EXPECT_TRUE(lanes_left.count_down(6));
}

TEST(CountdownTest, OneLastLaneAmongThreads) {
  constexpr std::uint32_t kLanes = 4;
  constexpr std::uint64_t kRuns = 2'000;
  Countdown lanes_left;
  std::atomic<std::uint64_t> published{0};
  std::atomic<std::uint64_t> last_lanes{0};
  std::vector<std::thread> lanes;
  lanes.reserve(kLanes);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back([&] {
      for (std::uint64_t run = 1; run <= kRuns; ++run) {
        while (published < run) std::this_thread::yield();
        last_lanes += lanes_left.count_down(run);
      }
    });
  }
  for (std::uint64_t run = 1; run <= kRuns; ++run) {
    lanes_left.arm(run, kLanes);
    published = run;
    while (last_lanes < run) std::this_thread::yield();
  }
  for (auto& lane : lanes) lane.join();
  EXPECT_EQ(last_lanes, kRuns);
}

}  // namespace
}  // namespace rankcast::base
