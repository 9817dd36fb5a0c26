#include "base/clock.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/spin.h"

namespace rankcast::base {
namespace {

constexpr std::int64_t kHour = 3'600'000'000'000;

TEST(ClockTest, NeverGoesBack) {
  std::int64_t last = now_ns();
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t now = now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(DeadlineTest, NeverIsTheDefault) {
  EXPECT_TRUE(Deadline().is_never());
  EXPECT_EQ(Deadline(), Deadline::never());
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_EQ(Deadline::never().remaining_ns(), std::numeric_limits<std::int64_t>::max());
}

TEST(DeadlineTest, PassedAndRemaining) {
  EXPECT_TRUE(Deadline::after(0).passed());
  EXPECT_TRUE(Deadline::after(-kHour).passed());
  EXPECT_EQ(Deadline::after(-1).remaining_ns(), 0);
  const Deadline later = Deadline::after(kHour);
  EXPECT_FALSE(later.passed());
  EXPECT_GT(later.remaining_ns(), 0);
  EXPECT_LE(later.remaining_ns(), kHour);
}

TEST(DeadlineTest, TooFarAwayIsNever) {
  EXPECT_TRUE(Deadline::after(std::numeric_limits<std::int64_t>::max()).is_never());
  EXPECT_TRUE(Deadline::after(std::numeric_limits<std::int64_t>::max() - 1).is_never());
}

TEST(SpinnerTest, ZeroDoesNotSpin) {
  Spinner spinner(SpinPolicy::none());
  EXPECT_FALSE(spinner.keep_spinning());
  Spinner yielding(SpinPolicy{0, true});
  EXPECT_FALSE(yielding.keep_spinning());
}

void expect_ends_after(SpinPolicy policy) {
  Spinner spinner(policy);
  const std::int64_t begin = now_ns();
  while (spinner.keep_spinning()) {
  }
  EXPECT_GE(now_ns() - begin, policy.spin_ns);
}

TEST(SpinnerTest, SpinsForItsTimeAndEnds) {
  expect_ends_after(SpinPolicy{200'000, false});
  expect_ends_after(SpinPolicy{200'000, true});
}

}  // namespace
}  // namespace rankcast::base
