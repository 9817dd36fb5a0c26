#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace rankcast::base {
namespace {

TEST(LogThresholdTest, AcceptedValues) {
  EXPECT_EQ(parse_log_threshold("debug").level, LogLevel::debug);
  EXPECT_EQ(parse_log_threshold("info").level, LogLevel::info);
  EXPECT_EQ(parse_log_threshold("warning").level, LogLevel::warning);
  EXPECT_EQ(parse_log_threshold("error").level, LogLevel::error);
  EXPECT_EQ(parse_log_threshold("off").level, LogLevel::off);
}

TEST(LogThresholdTest, NotSetAndEmptyMeanWarning) {
  for (const char* value : {static_cast<const char*>(nullptr), ""}) {
    EXPECT_EQ(parse_log_threshold(value).level, LogLevel::warning);
    EXPECT_TRUE(parse_log_threshold(value).accepted);
  }
}

TEST(LogThresholdTest, OtherValuesAreNotAccepted) {
  for (const char* value : {"WARNING", "warn", "2", " off"}) {
    EXPECT_EQ(parse_log_threshold(value).level, LogLevel::warning);
    EXPECT_FALSE(parse_log_threshold(value).accepted);
  }
}

// The environment is read once a process, so each case runs in one of its own; its stderr is what
// is matched.
void say_everything_and_end(const char* threshold) {
  if (threshold == nullptr) {
    unsetenv("RANKCAST_LOG");
  } else {
    setenv("RANKCAST_LOG", threshold, 1);
  }
  log_debug("a {} line", "debug");
  log_info("an {} line", "info");
  log_warning("a {} line", "warning");
  log_error("an {} line", "error");
  log_line(LogLevel::off, "a line that nobody wants");
  _Exit(0);
}

class LogDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

auto holds_but_not(const char* wanted, const char* unwanted) {
  return testing::AllOf(testing::HasSubstr(wanted), testing::Not(testing::HasSubstr(unwanted)));
}

TEST_F(LogDeathTest, WarningByDefault) {
  EXPECT_EXIT(say_everything_and_end(nullptr), testing::ExitedWithCode(0),
              holds_but_not("[warning] a warning line", "info line"));
  EXPECT_EXIT(say_everything_and_end(nullptr), testing::ExitedWithCode(0),
              holds_but_not("[error] an error line", "nobody wants"));
}

TEST_F(LogDeathTest, DebugSaysEverything) {
  EXPECT_EXIT(say_everything_and_end("debug"), testing::ExitedWithCode(0),
              holds_but_not("a debug line", "nobody wants"));
}

TEST_F(LogDeathTest, OffSaysNothing) {
  EXPECT_EXIT(say_everything_and_end("off"), testing::ExitedWithCode(0), holds_but_not("", "line"));
}

TEST_F(LogDeathTest, UnknownValueIsToldOnceWithTheAcceptedOnes) {
  EXPECT_EXIT(
      say_everything_and_end("loud"), testing::ExitedWithCode(0),
      holds_but_not("RANKCAST_LOG is \"loud\", which is none of debug, info, warning, error, off",
                    "info line"));
}

}  // namespace
}  // namespace rankcast::base
