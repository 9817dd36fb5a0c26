// When the watchdog speaks, on a clock of the test's own.
#include "mesh/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/scoped_variable.h"

namespace rankcast::mesh {
namespace {

using test::ScopedVariable;
using ::testing::HasSubstr;

constexpr const char* kVariable = "RANKCAST_WATCHDOG_MS";

TEST(WatchdogPeriod, IsTheOptionOrTheVariable) {
  EXPECT_EQ(Watchdog::period_ns(std::chrono::seconds(0)), 0) << "off by default";
  EXPECT_EQ(Watchdog::period_ns(std::chrono::milliseconds(20)), 20'000'000);
  EXPECT_EQ(Watchdog::period_ns(std::chrono::duration<double>(1e-12)), 1)
      << "never off by accident";
  EXPECT_EQ(Watchdog::period_ns(std::chrono::hours(24)), 86'400'000'000'000);
  const ScopedVariable variable(kVariable, "250");
  EXPECT_EQ(Watchdog::period_ns(std::chrono::seconds(0)), 250'000'000);
  EXPECT_EQ(Watchdog::period_ns(std::chrono::seconds(1)), 1'000'000'000) << "the option counts";
}

TEST(WatchdogPeriod, AVariableMayTurnItOff) {
  for (const char* off : {"", "0"}) {
    const ScopedVariable variable(kVariable, off);
    EXPECT_EQ(Watchdog::period_ns(std::chrono::seconds(0)), 0);
  }
}

TEST(WatchdogPeriod, RefusesWhatIsNoTimeByName) {
  for (const char* bad : {"soon", "-1", "1.5", "86400001", "10ms", " 1", "99999999999999999999"}) {
    const ScopedVariable variable(kVariable, bad);
    const auto refused = Watchdog::period_ns(std::chrono::seconds(0));
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().text, HasSubstr(kVariable));
    EXPECT_THAT(refused.error().text, HasSubstr(bad));
  }
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(), 86'401.0}) {
    const auto refused = Watchdog::period_ns(std::chrono::duration<double>(bad));
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().text, ::testing::StartsWith("watchdog is "));
  }
}

class WatchdogTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kPeriod = 100;

  Watchdog::Answer look(std::int64_t now_ns, bool busy = true) {
    return watchdog_.look(
        busy,
        [&] {
          ++asked_;
          return progress_;
        },
        now_ns);
  }

  Watchdog watchdog_{kPeriod};
  std::vector<RankProgress> progress_{2};
  int asked_ = 0;
};

TEST_F(WatchdogTest, SpeaksOnceOfAStandstill) {
  EXPECT_EQ(look(1000).still_ns, 0);
  EXPECT_EQ(look(1100).still_ns, 100);
  for (int i = 2; i < 10; ++i) EXPECT_EQ(look(1000 + i * kPeriod).still_ns, 0) << "it was told";
}

TEST_F(WatchdogTest, WhatMovesBeginsAnotherEpisode) {
  look(1000);
  EXPECT_NE(look(1100).still_ns, 0);
  progress_[1].timeline = base::TimelineValue::make(1, 1);
  EXPECT_EQ(look(1200).still_ns, 0);
  EXPECT_EQ(look(1300).still_ns, 100);
  EXPECT_EQ(look(1400).still_ns, 0);
  progress_[0].task = 7;
  EXPECT_EQ(look(1500).still_ns, 0);
  EXPECT_EQ(look(1600).still_ns, 100);
  progress_[0].run = 3;
  EXPECT_EQ(look(1700).still_ns, 0);
  EXPECT_EQ(look(1800).still_ns, 100);
}

TEST_F(WatchdogTest, IsSilentWhileSomethingMoves) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    progress_[i % 2].task = i;
    EXPECT_EQ(look(1000 + i * kPeriod).still_ns, 0);
  }
}

TEST_F(WatchdogTest, LooksOnceAPeriodHoweverOftenItIsWoken) {
  EXPECT_EQ(look(1000).next, base::Deadline::at(1100));
  for (std::int64_t now = 1001; now < 1100; ++now) {
    const Watchdog::Answer answer = look(now);
    EXPECT_EQ(answer.next, base::Deadline::at(1100));
    EXPECT_EQ(answer.still_ns, 0);
  }
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(look(1130).still_ns, 130) << "as long as it was";
  EXPECT_EQ(asked_, 2);
}

TEST_F(WatchdogTest, RestsBetweenRunsAndHasToBeWoken) {
  EXPECT_FALSE(watchdog_.wake()) << "it has not come to rest yet";
  EXPECT_TRUE(look(1000, false).next.is_never());
  EXPECT_EQ(asked_, 0);
  EXPECT_TRUE(watchdog_.wake());
  EXPECT_FALSE(watchdog_.wake()) << "once is enough";
  EXPECT_EQ(look(1050).next, base::Deadline::at(1150));
  EXPECT_FALSE(watchdog_.wake()) << "it looks";
  EXPECT_NE(look(1150).still_ns, 0);
  look(1160, false);
  EXPECT_TRUE(watchdog_.wake());
  EXPECT_EQ(look(1170).still_ns, 0)
      << "an episode of its own, although the ranks are where they were";
  EXPECT_NE(look(1270).still_ns, 0);
}

TEST(Watchdog, OneThatIsOffIsNeverWoken) {
  Watchdog off(0);
  EXPECT_FALSE(off.on());
  off.look(false, [] { return std::vector<RankProgress>(); }, 5);
  EXPECT_FALSE(off.wake());
}

}  // namespace
}  // namespace rankcast::mesh
