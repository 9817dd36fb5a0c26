#include "link/rank_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/fault_point.h"

namespace rankcast::link {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RankOutputTest : public ::testing::Test {
 protected:
  RankOutputTest() { EXPECT_TRUE(output_.open(events_, &ends_).ok()); }
  ~RankOutputTest() override { output_.close(events_); }

  static void print(const base::Fd& end, const std::string& text) {
    ASSERT_EQ(write(end.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// All that was printed, each piece as "number:text".
  std::string take() {
    std::vector<Printed> printed;
    output_.take(events_, &printed);
    std::string all;
    for (const Printed& one : printed) all += std::to_string(one.to) + ":" + one.text;
    return all;
  }
  bool is_event() const { return base::wait_readable(events_.fd(), base::Deadline::at(0)); }

  base::Epoll events_ = base::Epoll::create().value();
  RankOutput output_;
  RankOutput::Ends ends_;
};

TEST_F(RankOutputTest, BothStreamsArePassedOnAndKept) {
  EXPECT_EQ(output_.describe(), "");
  EXPECT_FALSE(is_event());
  EXPECT_EQ(take(), "");
  print(ends_.standard_output, "to out\n");
  print(ends_.standard_error, "to err\n");
  EXPECT_TRUE(is_event());
  EXPECT_EQ(take(), "1:to out\n2:to err\n");
  EXPECT_FALSE(is_event());
  EXPECT_EQ(output_.describe(), "; it printed last: to out\nto err");
  print(ends_.standard_output, " \n\n");
  take();
  EXPECT_EQ(output_.describe(), "; it printed last: to out\nto err");
}

TEST_F(RankOutputTest, TheLastLinesAreKept) {
  for (int i = 0; i < 1000; ++i) {
    print(ends_.standard_error, "line " + std::to_string(i) + "\n");
    if (i % 7 == 0) take();
  }
  take();
  EXPECT_THAT(output_.describe(), HasSubstr("; it printed last: line "));
  EXPECT_THAT(output_.describe(), HasSubstr("\nline 998\nline 999"));
  EXPECT_THAT(output_.describe(), Not(HasSubstr("line 1\n")));
  EXPECT_LT(output_.describe().size(), 1000u);
  print(ends_.standard_error, std::string(5000, 'x').append("end"));
  take();
  EXPECT_THAT(output_.describe(), HasSubstr("xxxend"));
  EXPECT_LT(output_.describe().size(), 1000u);
}

TEST_F(RankOutputTest, AnEndedStreamIsNoEventAnyMore) {
  print(ends_.standard_error, "last words");
  ends_.standard_output.reset();
  EXPECT_TRUE(is_event());
  EXPECT_EQ(take(), "2:last words");
  EXPECT_FALSE(is_event());
  ends_.standard_error.reset();
  EXPECT_TRUE(is_event());
  EXPECT_EQ(take(), "");
  EXPECT_FALSE(is_event());
  EXPECT_EQ(output_.describe(), "; it printed last: last words");
}

TEST_F(RankOutputTest, OneLookTakesABoundedAmount) {
  const int flags = fcntl(ends_.standard_error.get(), F_GETFL);
  ASSERT_EQ(fcntl(ends_.standard_error.get(), F_SETPIPE_SZ, 1 << 18) > 0, true);
  ASSERT_EQ(fcntl(ends_.standard_error.get(), F_SETFL, flags | O_NONBLOCK), 0);
  print(ends_.standard_error, std::string(200'000, 'x'));
  EXPECT_LT(take().size(), 100'000u);
  EXPECT_TRUE(is_event()) << "the rest is still there";
}

TEST(RankOutput, WithoutDescriptorsLeftNothingIsWatched) {
  for (std::uint32_t passed = 0; passed < 2; ++passed) {
    const base::Epoll events = base::Epoll::create().value();
    base::arm_fault_point("base.output_pipe", passed);
    RankOutput output;
    RankOutput::Ends ends;
    const base::Status refused = output.open(events, &ends);
    EXPECT_EQ(refused.code, ErrorCode::out_of_memory);
    EXPECT_THAT(refused.text, HasSubstr("ulimit -n"));
    ends = {};
    EXPECT_FALSE(base::wait_readable(events.fd(), base::Deadline::at(0)));
  }
}

TEST(PassOn, WritesAllInOrderAndDropsWhatNobodyTakes) {
  auto pipe = base::output_pipe().value();
  pass_on({{pipe.second.get(), "one "}, {-1, "nobody"}, {pipe.second.get(), "two"}});
  std::array<char, 100> buffer{};
  const ssize_t count = read(pipe.first.get(), buffer.data(), buffer.size());
  EXPECT_EQ(std::string_view(buffer.data(), static_cast<std::size_t>(count)), "one two");
}

}  // namespace
}  // namespace rankcast::link
