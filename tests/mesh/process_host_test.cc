// What becomes of process ranks when something happens to the program that has the mesh.
// tests: src/link/process_rank.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <sstream>

#include "base/child_process.h"
#include "link/rank_program.h"
#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::HasSubstr;

base::Deadline hang_limit() { return base::Deadline::after(60'000'000'000); }

class MeshProcessHost : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> arguments{link::find_rank_program("").value(),
                                             RANKCAST_TEST_KERNELS};
    host_ = base::ChildProcess::spawn(RANKCAST_TEST_HOST, arguments,
                                      {.standard_output = output_.second.get()})
                .value();
    output_.second.reset();
    std::istringstream line(read_line());
    for (int process = 0; line >> process;) {
      ranks_.push_back(base::open_pidfd(process).value());
      processes_.push_back(process);
    }
    ASSERT_EQ(ranks_.size(), 4u);
  }

  std::string read_line() {
    std::string line;
    while (base::wait_readable(output_.first.get(), hang_limit())) {
      char byte = 0;
      if (read(output_.first.get(), &byte, 1) != 1 || byte == '\n') break;
      line += byte;
    }
    return line;
  }
  std::string end_of_host() {
    EXPECT_TRUE(base::wait_readable(host_.pidfd(), hang_limit()));
    EXPECT_TRUE(host_.reap());
    return host_.end();
  }
  static bool has_ended(const base::Fd& rank, base::Deadline deadline) {
    return base::wait_readable(rank.get(), deadline);
  }

  std::pair<base::Fd, base::Fd> output_ = base::output_pipe().value();
  base::ChildProcess host_;
  std::vector<base::Fd> ranks_;  // a pidfd each
  std::vector<int> processes_;
};

// One of them waits for its device in the middle of a run.
TEST_F(MeshProcessHost, NoRankOutlivesAHostThatIsKilled) {
  for (const base::Fd& rank : ranks_) EXPECT_FALSE(has_ended(rank, base::Deadline::at(0)));
  host_.kill();
  EXPECT_THAT(end_of_host(), HasSubstr("signal 9"));
  for (const base::Fd& rank : ranks_) EXPECT_TRUE(has_ended(rank, hang_limit()));
}

// Ctrl-C: the terminal interrupts the whole group of the program.
TEST_F(MeshProcessHost, RanksLiveThroughAnInterruptUntilTheMeshIsClosed) {
  for (const int process : processes_) EXPECT_NE(getpgid(process), getpgid(host_.pid()));
  ASSERT_EQ(kill(-getpgid(host_.pid()), SIGINT), 0);
  EXPECT_EQ(read_line(), "the ranks live");
  EXPECT_EQ(read_line(), "closed");
  EXPECT_EQ(end_of_host(), "exited with status 0");
  for (const base::Fd& rank : ranks_) EXPECT_TRUE(has_ended(rank, hang_limit()));
}

}  // namespace
}  // namespace rankcast::test
