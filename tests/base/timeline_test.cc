#include "base/timeline.h"

#include <gtest/gtest.h>

namespace rankcast::base {
namespace {

TEST(TimelineValueTest, PartsComeBack) {
  for (const std::uint64_t run : {std::uint64_t{0}, std::uint64_t{1}, TimelineValue::kMaxRun}) {
    for (const std::uint64_t tasks :
         {std::uint64_t{0}, std::uint64_t{9}, TimelineValue::kMaxTasks}) {
      const TimelineValue value = TimelineValue::make(run, tasks);
      EXPECT_EQ(value.run(), run);
      EXPECT_EQ(value.tasks(), tasks);
    }
  }
}

TEST(TimelineValueTest, LimitsAreThoseOfTheTable) {
  EXPECT_EQ(TimelineValue::kMaxRun, 17'592'186'044'415u);
  EXPECT_EQ(TimelineValue::kMaxTasks, 1'048'575u);
}

TEST(TimelineValueTest, OrderIsRunThenTasks) {
  EXPECT_LT(TimelineValue::make(4, TimelineValue::kMaxTasks), TimelineValue::make(5, 0));
  EXPECT_LT(TimelineValue::make(5, 0), TimelineValue::make(5, 1));
  EXPECT_EQ(TimelineValue::make(5, 1), TimelineValue::make(5, 1));
}

TEST(TimelineTest, StartsAtNothingAndAdvances) {
  Timeline timeline;
  EXPECT_TRUE(timeline.reached(TimelineValue{}));
  EXPECT_FALSE(timeline.reached(TimelineValue::make(0, 1)));
  timeline.advance(TimelineValue::make(3, 2));
  EXPECT_EQ(timeline.load(), TimelineValue::make(3, 2));
  EXPECT_EQ(timeline.peek(), TimelineValue::make(3, 2));
  EXPECT_TRUE(timeline.reached(TimelineValue::make(2, 9)));
  EXPECT_TRUE(timeline.reached_acquire(TimelineValue::make(3, 2)));
  EXPECT_FALSE(timeline.reached(TimelineValue::make(3, 3)));
  EXPECT_FALSE(timeline.reached_acquire(TimelineValue::make(4, 0)));
  timeline.advance(TimelineValue::make(3, 2));  // the same value again is allowed
}

#ifndef NDEBUG
TEST(TimelineDeathTest, NeverGoesBack) {
  Timeline timeline;
  timeline.advance(TimelineValue::make(3, 2));
  EXPECT_DEATH(timeline.advance(TimelineValue::make(3, 1)), "check failed");
}

TEST(TimelineDeathTest, ValuesStayInTheirBits) {
  EXPECT_DEATH(TimelineValue::make(0, TimelineValue::kMaxTasks + 1), "check failed");
  EXPECT_DEATH(TimelineValue::make(TimelineValue::kMaxRun + 1, 0), "check failed");
}
#endif

}  // namespace
}  // namespace rankcast::base
