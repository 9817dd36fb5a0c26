// Links whose ranks can die alone: how an end is told, and how successors start.
// tests: src/link/process.cc
// tests: src/link/process_messages.h
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/fd.h"
#include "link/fixture.h"

namespace rankcast::link {
namespace {

using ::testing::HasSubstr;

bool runs(int process) { return ::kill(process, 0) == 0; }

class LinkLosses : public LinkTest, public ::testing::WithParamInterface<std::string> {
 protected:
  LinkLosses() : LinkTest(GetParam(), RANKCAST_TEST_LINK_RANK) {}

  bool is_event() const { return base::wait_readable(link_->events_fd(), base::Deadline::at(0)); }
  /// What the keeper would do at the next event.
  std::vector<LostRank> wait_for_lost() {
    std::vector<LostRank> lost;
    while (lost.empty() && base::wait_readable(link_->events_fd(), hang_limit())) {
      lost = link_->take_lost();
    }
    return lost;
  }
  void kill_process(int rank) { ASSERT_EQ(::kill(link_->process_of(rank), SIGKILL), 0); }
  /// Of a process that may have no one to reap it yet.
  void wait_for_death(int rank) {
    const base::Fd pidfd = base::open_pidfd(link_->process_of(rank)).value();
    ASSERT_TRUE(base::wait_readable(pidfd.get(), hang_limit()));
  }
  /// The host's part at a loss; the next run's number.
  void retire(int rank, std::uint64_t last_run) {
    link_->retire_lost_rank(rank, base::TimelineValue::make(last_run, 1));
  }
};

TEST_P(LinkLosses, RanksAreProcessesInGroupsOfTheirOwn) {
  open(8);
  SKIP_WITHOUT_LINK(link_);
  std::set<int> processes;
  for (int rank = 0; rank < 8; ++rank) {
    const int process = link_->process_of(rank);
    EXPECT_TRUE(runs(process));
    EXPECT_EQ(getpgid(process), process) << "a key at the terminal does not reach it";
    processes.insert(process);
  }
  EXPECT_EQ(processes.size(), 8u);
  EXPECT_EQ(processes.count(getpid()), 0u);
  close();
  for (const int process : processes) EXPECT_FALSE(runs(process));
}

TEST_P(LinkLosses, AnEndIsToldOnceWithItsReasonAndTheLastWords) {
  open(3);
  SKIP_WITHOUT_LINK(link_);
  EXPECT_FALSE(is_event());
  send(*link_, 1, {.kind = Message::print, .run = 1, .value = 77});
  send(*link_, 1, {.kind = Message::crash, .run = 2});
  const std::vector<LostRank> lost = wait_for_lost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].rank, 1);
  EXPECT_THAT(lost[0].end, HasSubstr("was killed by signal 9 (Killed)"));
  EXPECT_THAT(lost[0].end, HasSubstr("it printed last: "));
  EXPECT_THAT(lost[0].end, HasSubstr("out 77 of rank 1"));
  EXPECT_THAT(lost[0].end, HasSubstr("err 77 of rank 1"));
  EXPECT_TRUE(link_->take_lost().empty()) << "once";
  EXPECT_FALSE(is_event());
  EXPECT_FALSE(runs(link_->process_of(1))) << "it was reaped";
  for (const int rank : {0, 2}) {
    send(*link_, rank, {.run = 1});
    EXPECT_TRUE(wait_for_run(*link_, rank, 1));
  }
  close();
}

TEST_P(LinkLosses, ARankThatLeavesIsLostToo) {
  open(1);
  SKIP_WITHOUT_LINK(link_);
  send(*link_, 0, {.kind = Message::leave, .run = 1, .value = 0});
  const std::vector<LostRank> lost = wait_for_lost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_THAT(lost[0].end, HasSubstr("exited with status 0"));
  close();
}

// kill reaps whatever it finds: the ends of others stay events until they are told.
TEST_P(LinkLosses, AnEndThatAnotherCallHasReapedIsStillTold) {
  for (int turn = 0; turn < 20; ++turn) {
    open(3);
    SKIP_WITHOUT_LINK(link_);
    kill_process(2);
    wait_for_death(2);
    EXPECT_THAT(link_->kill(0), HasSubstr("signal 9"));
    EXPECT_FALSE(runs(link_->process_of(2)));
    ASSERT_TRUE(is_event());
    const std::vector<LostRank> lost = link_->take_lost();
    ASSERT_EQ(lost.size(), 1u) << "the one that was killed by kill is not told";
    EXPECT_EQ(lost[0].rank, 2);
    EXPECT_FALSE(is_event());
    close();
  }
}

TEST_P(LinkLosses, WhoWasToldToEndIsNotLost) {
  open(4);
  SKIP_WITHOUT_LINK(link_);
  tell_to_stop(*link_);
  for (int rank = 0; rank < 4; ++rank) wait_for_death(rank);
  EXPECT_TRUE(link_->take_lost().empty()) << "the host said that they would end";
  EXPECT_FALSE(is_event());
  EXPECT_EQ(link_->stop(hang_limit()), std::vector<int>{});
  EXPECT_TRUE(link_->take_lost().empty());
  EXPECT_FALSE(is_event());
}

TEST_P(LinkLosses, ALinkThatGoesTakesItsRanksWithIt) {
  open(3);
  SKIP_WITHOUT_LINK(link_);
  send(*link_, 1, {.kind = Message::wait_hard, .run = 1, .value = 1});
  std::vector<int> processes;
  for (int rank = 0; rank < 3; ++rank) processes.push_back(link_->process_of(rank));
  link_.reset();
  for (const int process : processes) EXPECT_FALSE(runs(process));
}

TEST_P(LinkLosses, ASuccessorReachesItsPredecessorsMemoryAndTakesTheRingOver) {
  open(2);
  SKIP_WITHOUT_LINK(link_);
  const std::uint32_t mine = link_->add_segment(4096, 1, Access::owner_writes).value();
  const std::uint32_t others = link_->add_segment(8192, 0, Access::owner_writes).value();
  const std::uint32_t of_all = link_->add_segment(12288, -1, Access::all_write).value();
  send(*link_, 1, {.kind = Message::add, .run = 1, .value = mine, .extra = 4096});
  ASSERT_TRUE(wait_for_run(*link_, 1, 1));
  const int old = link_->process_of(1);
  EXPECT_THAT(link_->kill(1), HasSubstr("signal 9"));
  // Records that nobody will take.
  for (std::uint64_t run = 2; run < 5; ++run) send(*link_, 1, {.run = run, .value = run});
  const std::uint32_t while_dead = link_->add_segment(16384, 1, Access::owner_writes).value();
  retire(1, 4);
  ASSERT_TRUE(link_->restart(1, hang_limit()).ok());
  EXPECT_NE(link_->process_of(1), old);
  EXPECT_TRUE(link_->timeline(1).reached(base::TimelineValue::make(4, 1)));

  EXPECT_EQ(found(1, 5, mine), 4096u);
  EXPECT_EQ(found(1, 6, of_all), 12288u);
  EXPECT_EQ(found(1, 7, while_dead), 16384u);
  EXPECT_EQ(found(1, 8, others), 0u) << "the memory of another rank";
  send(*link_, 1, {.kind = Message::add, .run = 9, .value = mine, .extra = 4096});
  ASSERT_TRUE(wait_for_run(*link_, 1, 9));
  EXPECT_EQ(link_->segment(mine)[4095], std::byte{4}) << "twice 1 + rank";
  const std::vector<std::uint64_t> expected{mine, mine, of_all, while_dead, others, mine};
  EXPECT_EQ(seen(1), expected) << "none of the records that nobody took";
  EXPECT_TRUE(link_->take_lost().empty());
  close();
}

TEST_P(LinkLosses, ASuccessorThatDoesNotStartLeavesNothingAndMayBeTriedAgain) {
  link_ = create(2);
  SKIP_WITHOUT_LINK(link_);
  auto word = std::make_shared<std::string>(kGood);
  ASSERT_TRUE(start([word](int) { return *word; }, hang_limit()).ok());
  link_->kill(0);
  retire(0, 1);
  *word = kLeaves;
  base::Status failed = link_->restart(0, hang_limit());
  EXPECT_EQ(failed.code, ErrorCode::rank_lost);
  EXPECT_EQ(failed.rank, 0);
  EXPECT_THAT(failed.text, HasSubstr("exited with status 4"));
  EXPECT_FALSE(runs(link_->process_of(0)));
  *word = kFails;
  EXPECT_EQ(link_->restart(0, hang_limit()).code, ErrorCode::unsupported);
  EXPECT_FALSE(runs(link_->process_of(0)));
  *word = kSilent;
  EXPECT_EQ(link_->restart(0, base::Deadline::after(50'000'000)).code,
            ErrorCode::deadline_exceeded);
  EXPECT_FALSE(runs(link_->process_of(0)));
  *word = kNonsense;
  failed = link_->restart(0, hang_limit());
  EXPECT_EQ(failed.code, ErrorCode::internal);
  EXPECT_THAT(failed.text, HasSubstr("nonsense"));
  for (const char* point :
       {"link.start_process", "base.spawn", "base.socket_pair", "base.output_pipe", "base.pidfd"}) {
    base::arm_fault_point(point);
    failed = link_->restart(0, hang_limit());
    EXPECT_FALSE(failed.ok()) << point;
    EXPECT_EQ(failed.rank, 0) << point;
    EXPECT_EQ(base::armed_fault_points(), 0) << point;
  }
  EXPECT_TRUE(link_->take_lost().empty());
  EXPECT_FALSE(is_event());
  *word = kGood;
  ASSERT_TRUE(link_->restart(0, hang_limit()).ok());
  EXPECT_EQ(found(0, 2, 0), 0u);
  close();
}

// It asks for what it is told of and does not have.
TEST_P(LinkLosses, ARankThatASegmentWasNotSentToGetsItAllTheSame) {
  open(3);
  SKIP_WITHOUT_LINK(link_);
  for (std::uint32_t sent = 0; sent < 3; ++sent) {
    base::arm_fault_point("base.send_message", sent);
    const auto added = link_->add_segment(8192, -1, Access::all_write);
    ASSERT_TRUE(added);
    EXPECT_EQ(base::armed_fault_points(), 0);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(found(rank, sent + 1, *added), 8192u);
  }
  close();
}

// A frame is the host's: a kernel that strays into one ends its rank, not the next dispatch.
TEST_P(LinkLosses, FramesCannotBeWrittenByTheirRank) {
  open(2);
  SKIP_WITHOUT_LINK(link_);
  const std::uint32_t frames = link_->add_segment(4096, 0, Access::owner_reads).value();
  EXPECT_EQ(found(0, 1, frames), 4096u);
  EXPECT_EQ(found(1, 1, frames), 0u);
  send(*link_, 0, {.kind = Message::add, .run = 2, .value = frames, .extra = 1});
  const std::vector<LostRank> lost = wait_for_lost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].rank, 0);
  EXPECT_EQ(link_->segment(frames)[0], std::byte{0});
  close();
}

// The rank's process is stopped: nobody takes what is sent to it, and there is more of it than its
// socket holds. Nobody waits for it, and it gets all of it later.
TEST_P(LinkLosses, ARankThatTakesNoSegmentsHoldsNobodyUp) {
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kMany = 700;
  open(2);
  SKIP_WITHOUT_LINK(link_);
  ASSERT_EQ(::kill(link_->process_of(1), SIGSTOP), 0);
  std::vector<std::uint32_t> ids;
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    ids.push_back(link_->add_segment((1 + i % 2) * kPage, 1, Access::owner_writes).value());
  }
  const std::uint32_t of_all = link_->add_segment(kPage, -1, Access::all_write).value();
  EXPECT_EQ(found(0, 1, of_all), kPage) << "the other rank goes on";
  ASSERT_EQ(::kill(link_->process_of(1), SIGCONT), 0);
  std::uint64_t run = 0;
  EXPECT_EQ(found(1, ++run, of_all), kPage) << "the last one first";
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    ASSERT_EQ(found(1, ++run, ids[i - 1]), (1 + i % 2) * kPage) << i;
  }
  EXPECT_EQ(found(1, ++run, of_all + 1), 0u) << "there is none yet";
  const std::uint32_t next = link_->add_segment(kPage, 1, Access::owner_reads).value();
  EXPECT_EQ(next, of_all + 1);
  EXPECT_EQ(found(1, ++run, next), kPage);
  close();
}

TEST_P(LinkLosses, AReaderOfAnothersSegmentGetsItAlsoWhenItTakesNothing) {
  open(2);
  SKIP_WITHOUT_LINK(link_);
  const std::uint32_t first = link_->add_segment(4096, 0, Access::owner_writes).value();
  EXPECT_EQ(found(1, 1, first), 0u);
  ASSERT_EQ(::kill(link_->process_of(1), SIGSTOP), 0);
  for (int i = 0; i < 700; ++i) {
    ASSERT_TRUE(link_->add_segment(4096, 1, Access::owner_writes));
  }
  const std::uint32_t last = link_->add_segment(8192, 0, Access::owner_writes).value();
  link_->let_read(first, 1);
  link_->let_read(last, 1);
  link_->let_read(last, 1);
  ASSERT_EQ(::kill(link_->process_of(1), SIGCONT), 0);
  EXPECT_EQ(found(1, 2, first), 4096u);
  EXPECT_EQ(found(1, 3, last), 8192u);
  // It may not write there.
  send(*link_, 1, {.kind = Message::add, .run = 4, .value = last, .extra = 1});
  EXPECT_EQ(wait_for_lost().size(), 1u);
  EXPECT_EQ(link_->segment(last)[0], std::byte{0});
  close();
}

// Others go on while a successor starts: what they add comes after its greeting.
TEST_P(LinkLosses, ASegmentThatIsAddedWhileARankStartsReachesIt) {
  link_ = create(2);
  SKIP_WITHOUT_LINK(link_);
  std::vector<std::uint32_t> added;
  const auto hello = [&](int) {
    added.push_back(link_->add_segment(4096, -1, Access::all_write).value());
    return std::string(kGood);
  };
  ASSERT_TRUE(start(hello, hang_limit()).ok());
  link_->kill(1);
  retire(1, 1);
  ASSERT_TRUE(link_->restart(1, hang_limit()).ok());
  ASSERT_EQ(added.size(), 3u);
  std::uint64_t run = 1;
  for (const std::uint32_t id : added) EXPECT_EQ(found(1, ++run, id), 4096u);
  close();
}

// A rank that lost its mind may have told itself anything.
TEST_P(LinkLosses, WhatALostRankWroteIntoItsRingIsGone) {
  open(1);
  SKIP_WITHOUT_LINK(link_);
  link_->kill(0);
  const std::uint64_t forged = link_->ring(0).published() + 3;
  base::store_seq_cst(link_->control().channel(0).tail.count, forged);
  link_->control().slots(0)[0] = std::bit_cast<RecordBytes>(Message{.kind = Message::stop});
  retire(0, 1);
  ASSERT_TRUE(link_->restart(0, hang_limit()).ok());
  EXPECT_EQ(found(0, 2, 0), 0u) << "it takes no stop";
  close();
}

TEST_P(LinkLosses, LeavesNothingBehind) {
  const auto count = [](const char* folder) {
    const std::filesystem::directory_iterator all(folder);
    return std::distance(begin(all), end(all));
  };
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    int found = 0;
    while (std::getline(maps, line)) found += line.find("memfd:rankcast") != std::string::npos;
    return found;
  };
  const auto descriptors = count("/proc/self/fd");
  const auto names = count("/dev/shm");
  for (int turn = 0; turn < 3; ++turn) {
    open(4);
    SKIP_WITHOUT_LINK(link_);
    const std::uint32_t id = link_->add_segment(4096, 0, Access::owner_writes).value();
    EXPECT_EQ(found(0, 1, id), 4096u);
    EXPECT_EQ(count("/dev/shm"), names);
    EXPECT_GT(mappings(), 0);
    if (turn == 1) kill_process(3);
    close();
    EXPECT_EQ(count("/proc/self/fd"), descriptors);
    EXPECT_EQ(mappings(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(KindsThatLoseRanks, LinkLosses, ::testing::Values("process"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace rankcast::link
