#include "frame/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "frame/sample.h"

namespace rankcast::frame {
namespace {

using ::testing::HasSubstr;

/// Rank 2 had tasks 40, 41 and 42 of 50; they have 2, 2 and 0 arguments.
class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    report_.run = 9;
    report_.entry_ns = 1100;
    report_.exit_ns = 1200;
  }

  LaneFacts facts() {
    return {.run = 9,
            .rank = 2,
            .begin_ns = 1000,
            .now_ns = 1300,
            .tasks = tasks_of(bytes_.data()),
            .outcomes = outcomes_};
  }
  LaneEnd read() { return read_report(report_, facts()); }
  void fail(std::uint32_t task) {
    report_.error_code = static_cast<std::uint8_t>(ErrorCode::task_failed);
    report_.error_task = task;
    std::strncpy(report_.error_text, "no good", kErrorTextBytes - 1);
  }
  void expect_damaged(const std::string& words) {
    const LaneEnd end = read();
    EXPECT_EQ(end.error.code, ErrorCode::internal);
    EXPECT_EQ(end.error.rank, 2);
    EXPECT_EQ(end.error.argument, -1);
    EXPECT_EQ(end.error_task, kNone);
    EXPECT_EQ(end.entry_ns, 1000) << "times that can be subtracted";
    EXPECT_EQ(end.exit_ns, 1000);
    EXPECT_THAT(end.error.text, HasSubstr("rank 2 "));
    EXPECT_THAT(end.error.text, HasSubstr(words));
  }

  Bytes bytes_ = make_sample().bytes();
  std::array<std::byte, 50> outcomes_{};
  LaneReport report_;
};

TEST_F(ReportTest, AGoodOne) {
  const LaneEnd end = read();
  EXPECT_TRUE(end.error.ok());
  EXPECT_EQ(end.error_task, kNone);
  EXPECT_EQ(end.entry_ns, 1100);
  EXPECT_EQ(end.exit_ns, 1200);
}

TEST_F(ReportTest, TimesMayTouch) {
  report_.entry_ns = report_.exit_ns = 1000;
  EXPECT_TRUE(read().error.ok());
  report_.entry_ns = report_.exit_ns = 1300;
  EXPECT_TRUE(read().error.ok());
}

TEST_F(ReportTest, AFailure) {
  fail(41);
  report_.error_argument = 1;
  outcomes_[41] = static_cast<std::byte>(Outcome::failed);
  outcomes_[42] = static_cast<std::byte>(Outcome::rank_lost);
  const LaneEnd end = read();
  EXPECT_EQ(end.error.code, ErrorCode::task_failed);
  EXPECT_EQ(end.error.rank, 2);
  EXPECT_EQ(end.error.argument, 1);
  EXPECT_EQ(end.error.text, "no good");
  EXPECT_EQ(end.error_task, 41u);
  EXPECT_EQ(end.exit_ns, 1200);
}

TEST_F(ReportTest, AFailureOfNoTask) {
  fail(kNone);
  std::memset(report_.error_text, 'x', kErrorTextBytes);
  EXPECT_EQ(read().error.text, std::string(kErrorTextBytes, 'x')) << "its field ends it";
  report_.error_argument = 0;
  expect_damaged("argument 0");
}

TEST_F(ReportTest, OfAnotherRun) {
  report_.run = 8;
  expect_damaged("left no report");
}

TEST_F(ReportTest, TimesThatCannotBe) {
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  for (const auto& [entry, exit] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {999, 1200}, {1200, 1199}, {1100, 1301}, {kMin, 1200}, {1100, kMax}, {kMax, kMin}}) {
    report_.entry_ns = entry;
    report_.exit_ns = exit;
    expect_damaged("times that cannot be");
  }
}

TEST_F(ReportTest, AnErrorThatCannotBe) {
  fail(41);
  for (const int code : {static_cast<int>(ErrorCode::internal) + 1, 255}) {
    report_.error_code = static_cast<std::uint8_t>(code);
    expect_damaged("error code");
  }
  fail(43);
  expect_damaged("task 43");
  fail(42);
  report_.error_argument = 0;
  expect_damaged("argument 0 of task 42, which has 0");
  fail(41);
  for (const int argument : {2, -2, std::numeric_limits<int>::max()}) {
    report_.error_argument = argument;
    expect_damaged("argument");
  }
}

TEST_F(ReportTest, AnOutcomeThatCannotBe) {
  fail(41);
  outcomes_[39] = std::byte{99};
  EXPECT_EQ(read().error.code, ErrorCode::task_failed) << "of another rank";
  outcomes_[40] = std::byte{5};
  expect_damaged("outcome 5 of task 40");
}

}  // namespace
}  // namespace rankcast::frame
