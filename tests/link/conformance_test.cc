// The one suite for links: every kind of link that this build knows runs it. A kind that this
// machine cannot have skips with its reason; one that is there must pass. What only links do whose
// ranks can die alone is in losses_test.cc.
// tests: src/link/thread.cc
// tests: src/link/process.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <numeric>

#include "base/fault_point.h"
#include "base/fd.h"
#include "link/fixture.h"

namespace rankcast::link {
namespace {

using ::testing::HasSubstr;

class LinkConformance : public LinkTest, public ::testing::WithParamInterface<std::string> {
 protected:
  LinkConformance() : LinkTest(GetParam(), RANKCAST_TEST_LINK_RANK) {}
};

TEST_P(LinkConformance, StartsAndStopsOneToSixtyFourRanks) {
  for (const int world_size : {1, 2, 3, 8, 33, 64}) {
    open(world_size);
    SKIP_WITHOUT_LINK(link_);
    EXPECT_EQ(link_->world_size(), world_size);
    EXPECT_EQ(link_->name(), GetParam());
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_EQ(of(rank).rank, rank);
      EXPECT_EQ(of(rank).world_size, world_size);
      EXPECT_EQ(link_->timeline(rank).load().bits, 0u);
      send(*link_, rank, {.run = 1, .value = static_cast<std::uint64_t>(rank)});
    }
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_TRUE(wait_for_run(*link_, rank, 1));
      EXPECT_EQ(seen(rank), std::vector<std::uint64_t>{static_cast<std::uint64_t>(rank)});
    }
    close();
  }
}

TEST_P(LinkConformance, ARankThatCannotStartSaysWhy) {
  for (const int bad : {0, 3}) {
    link_ = create(4);
    SKIP_WITHOUT_LINK(link_);
    const base::Status status = start(with(kFails, bad), hang_limit());
    EXPECT_EQ(status.code, ErrorCode::unsupported);
    EXPECT_EQ(status.rank, bad);
    EXPECT_THAT(status.text, HasSubstr("rank " + std::to_string(bad)));
    EXPECT_THAT(status.text, HasSubstr("no such device xxx"));
    close();
  }
}

TEST_P(LinkConformance, ARankThatSaysNothingIsNamedAtTheDeadline) {
  link_ = create(3);
  SKIP_WITHOUT_LINK(link_);
  // Long enough for the others to come up.
  const base::Status status = start(with(kSilent, 1), base::Deadline::after(2'000'000'000));
  EXPECT_EQ(status.code, ErrorCode::deadline_exceeded);
  EXPECT_EQ(status.rank, 1);
  EXPECT_THAT(status.text, HasSubstr("rank 1"));
  base::store_seq_cst(area().word, std::uint64_t{1});
  close();
}

TEST_P(LinkConformance, RecordsArriveInTheOrderOfPublication) {
  constexpr int kWorld = 3;
  constexpr std::uint64_t kMessages = 5000;
  open(kWorld, 8);
  SKIP_WITHOUT_LINK(link_);
  for (std::uint64_t i = 1; i <= kMessages; ++i) {
    for (int rank = 0; rank < kWorld; ++rank) {
      ASSERT_TRUE(eventually([&] { return link_->ring(rank).has_room(); }));
      write(*link_, rank, {.run = i, .value = i * 3});
    }
    for (int rank = 0; rank < kWorld; ++rank) link_->ring(rank).publish();
    link_->control().doorbell().ring_asleep(base::RankSet::first(kWorld));
  }
  std::vector<std::uint64_t> expected(kMessages);
  for (std::uint64_t i = 0; i < kMessages; ++i) expected[i] = (i + 1) * 3;
  for (int rank = 0; rank < kWorld; ++rank) {
    ASSERT_TRUE(wait_for_run(*link_, rank, kMessages));
    EXPECT_EQ(seen(rank), expected);
  }
  close();
}

TEST_P(LinkConformance, SeveralPublishersUnderOneLock) {
  constexpr int kWorld = 4;
  constexpr int kPublishers = 4;
  constexpr std::uint64_t kEach = 400;
  open(kWorld, 2048);
  SKIP_WITHOUT_LINK(link_);
  std::mutex mutex;
  std::uint64_t run = 0;
  std::vector<std::thread> publishers;
  for (std::uint64_t publisher = 0; publisher < kPublishers; ++publisher) {
    publishers.emplace_back([&, publisher] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        {
          const std::lock_guard lock(mutex);
          ++run;
          for (int rank = 0; rank < kWorld; ++rank)
            write(*link_, rank, {.run = run, .value = publisher * kEach + i});
          for (int rank = 0; rank < kWorld; ++rank) link_->ring(rank).publish();
        }
        link_->control().doorbell().ring_asleep(base::RankSet::first(kWorld));
      }
    });
  }
  for (std::thread& publisher : publishers) publisher.join();
  for (int rank = 0; rank < kWorld; ++rank)
    ASSERT_TRUE(wait_for_run(*link_, rank, kPublishers * kEach));
  std::vector<std::uint64_t> all = seen(0);
  for (int rank = 1; rank < kWorld; ++rank)
    EXPECT_EQ(seen(rank), all) << "the order is the same on all ranks";
  std::sort(all.begin(), all.end());
  std::vector<std::uint64_t> expected(kPublishers * kEach);
  std::iota(expected.begin(), expected.end(), std::uint64_t{0});
  EXPECT_EQ(all, expected);
  close();
}

TEST_P(LinkConformance, SleepersAreWokenAndOnlyThose) {
  constexpr int kWorld = 40;  // more than the futex has bits for
  open(kWorld);
  SKIP_WITHOUT_LINK(link_);
  const auto all_asleep = [&] {
    return eventually([&] {
      for (int rank = 0; rank < kWorld; ++rank) {
        if (!link_->control().doorbell().is_asleep(rank)) return false;
      }
      return true;
    });
  };
  std::array<std::uint64_t, kWorld> runs{};
  for (const int rank : {0, 31, 32, 39, 7, 0}) {
    ASSERT_TRUE(all_asleep());
    EXPECT_EQ(send(*link_, rank, {.run = ++runs[static_cast<std::size_t>(rank)], .value = 5}), 1);
    EXPECT_TRUE(wait_for_run(*link_, rank, runs[static_cast<std::size_t>(rank)]));
  }
  for (int rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(seen(rank).size(), runs[static_cast<std::size_t>(rank)]) << rank;
  }
  ASSERT_TRUE(all_asleep());
  close();
}

TEST_P(LinkConformance, ARankWaitsInsideAFrameUntilItIsWoken) {
  open(2);
  SKIP_WITHOUT_LINK(link_);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    send(*link_, 1, {.kind = Message::wait_inside, .run = round, .value = round});
    if (round % 5 == 0) {
      ASSERT_TRUE(eventually([&] { return link_->control().doorbell().is_waiting(1); }));
    }
    EXPECT_FALSE(link_->timeline(1).reached(base::TimelineValue::make(round, 1)));
    base::store_seq_cst(area().word, round);
    link_->control().doorbell().ring_waiting(base::RankSet::of(1));
    ASSERT_TRUE(wait_for_run(*link_, 1, round));
  }
  close();
}

TEST_P(LinkConformance, RanksReachSegmentsThatWereAdded) {
  constexpr std::uint64_t kBytes = 100'000;
  open(2);
  SKIP_WITHOUT_LINK(link_);
  std::vector<std::uint32_t> ids;
  for (int i = 0; i < 10; ++i) {
    const auto id = link_->add_segment(kBytes, i % 2, Access::owner_writes);
    ASSERT_TRUE(id) << id.error().text;
    ids.push_back(*id);
    std::byte* base = link_->segment(*id);
    ASSERT_NE(base, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(base) % 4096, 0u);
    for (std::uint64_t at = 0; at < kBytes; ++at) ASSERT_EQ(base[at], std::byte{0}) << "zeroed";
    std::memset(base, 10 + i, kBytes);
    const int rank = i % 2;
    const auto run = static_cast<std::uint64_t>(i / 2 + 1);
    send(*link_, rank, {.kind = Message::add, .run = run, .value = *id, .extra = kBytes});
    ASSERT_TRUE(wait_for_run(*link_, rank, run));
    for (std::uint64_t at = 0; at < kBytes; ++at)
      ASSERT_EQ(base[at], static_cast<std::byte>(11 + i + rank));
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end()) << "an id was given twice";
  close();
}

TEST_P(LinkConformance, NobodyReachesSegmentsThatWereNot) {
  open(1);
  SKIP_WITHOUT_LINK(link_);
  const auto segment = link_->add_segment(4096, 0, Access::owner_writes);
  ASSERT_TRUE(segment);
  std::uint64_t run = 0;
  for (const std::uint32_t id : {*segment + 1, 16383u, 16384u, 0xffffffffu}) {
    EXPECT_EQ(found(0, ++run, *segment), 4096u);
    EXPECT_EQ(found(0, ++run, id), 0u) << id;
  }
  close();
}

TEST_P(LinkConformance, AFailedSegmentIsTold) {
  open(1);
  SKIP_WITHOUT_LINK(link_);
  base::arm_fault_point("base.segment_reserve");
  const auto refused = link_->add_segment(4096, 0, Access::owner_writes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_TRUE(link_->add_segment(4096, 0, Access::owner_writes));
  const auto none = link_->add_segment(0, 0, Access::owner_writes);
  EXPECT_FALSE(none);
  close();
}

TEST_P(LinkConformance, HostAndRanksShareTheMemoryThatWasAskedFor) {
  open(3);
  SKIP_WITHOUT_LINK(link_);
  for (const std::byte byte : area().bytes) ASSERT_EQ(byte, std::byte{0});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(link_->shared()) % base::kCacheLine, 0u);
  const std::uint64_t places[] = {0, 500, 999};
  for (int rank = 0; rank < 3; ++rank) {
    send(*link_, rank, {.kind = Message::poke, .run = 1, .value = places[rank]});
  }
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(wait_for_run(*link_, rank, 1));
    EXPECT_EQ(area().bytes[places[rank]], static_cast<std::byte>(rank + 1));
  }
  close();
}

TEST_P(LinkConformance, TheKeeperIsToldWhenARecordSaysSo) {
  open(1);
  SKIP_WITHOUT_LINK(link_);
  const auto told = [&] {
    pollfd descriptor{link_->keeper().fd(), POLLIN, 0};
    return poll(&descriptor, 1, 0) == 1;
  };
  send(*link_, 0, {.run = 1});
  ASSERT_TRUE(wait_for_run(*link_, 0, 1));
  tell_to_stop(*link_);
  ASSERT_EQ(link_->stop(hang_limit()), std::vector<int>{});
  EXPECT_FALSE(told()) << "a healthy record wakes nobody";
  link_.reset();

  open(1);
  send(*link_, 0, {.run = 1, .flags = 1});
  tell_to_stop(*link_);
  ASSERT_EQ(link_->stop(hang_limit()), std::vector<int>{});
  EXPECT_TRUE(told());
  link_.reset();

  open(1);
  link_->keeper().want();
  send(*link_, 0, {.run = 1});
  tell_to_stop(*link_);
  ASSERT_EQ(link_->stop(hang_limit()), std::vector<int>{});
  EXPECT_TRUE(told());
}

TEST_P(LinkConformance, StopNamesThoseThatHaveNotOrEndsThem) {
  open(4);
  SKIP_WITHOUT_LINK(link_);
  for (const int rank : {1, 2}) {
    send(*link_, rank, {.kind = Message::wait_hard, .run = 1, .value = 1});
  }
  tell_to_stop(*link_);
  const std::vector<int> stuck =
      link_->can_restart_ranks() ? std::vector<int>{} : std::vector<int>{1, 2};
  EXPECT_EQ(link_->stop(base::Deadline::after(20'000'000)), stuck);
  EXPECT_EQ(link_->stop(base::Deadline::after(0)), stuck);
  base::store_seq_cst(area().word, std::uint64_t{1});
  EXPECT_EQ(link_->stop(hang_limit()), std::vector<int>{});
  EXPECT_EQ(link_->stop(hang_limit()), std::vector<int>{}) << "again";
  EXPECT_EQ(link_->take_lost().size(), 0u) << "they were told to end";
}

TEST_P(LinkConformance, WhatAStuckRankUsesOutlivesTheLink) {
  link_ = create(2);
  SKIP_WITHOUT_LINK(link_);
  if (!link_->shares_host_memory()) GTEST_SKIP() << "a rank that is stuck is killed with its link";
  auto go_on = std::make_shared<std::atomic<bool>>(false);
  auto ended = std::make_shared<std::atomic<int>>(0);
  const std::uint32_t segment = link_->add_segment(8192, 0, Access::owner_writes).value();
  const auto main = [=](RankPort& port) {
    port.report({});
    EXPECT_TRUE(eventually([&] { return go_on->load(); }));
    std::uint64_t bytes = 0;
    std::byte* base = port.segment(segment, &bytes);
    base[bytes - 1 - static_cast<std::uint64_t>(port.rank())] = std::byte{1};
    ended->fetch_add(1);
  };
  ASSERT_TRUE(link_->start({main, {}}, hang_limit()).ok());
  EXPECT_EQ(link_->stop(base::Deadline::after(10'000'000)), (std::vector<int>{0, 1}));
  link_.reset();
  go_on->store(true);
  EXPECT_TRUE(eventually([&] { return ended->load() == 2; }));
}

TEST_P(LinkConformance, AStartThatFailsHalfWayCanBeStopped) {
  for (std::uint32_t passed = 0; passed < 3; ++passed) {
    link_ = create(3);
    SKIP_WITHOUT_LINK(link_);
    base::record_fault_points(true);
    base::arm_fault_point("link.start_" + GetParam(), passed);
    const base::Status status = start(with(kGood, -1), hang_limit());
    base::record_fault_points(false);
    EXPECT_EQ(base::armed_fault_points(), 0) << "a link has the fault point link.start_<its name>";
    EXPECT_EQ(status.code, ErrorCode::out_of_memory);
    EXPECT_EQ(status.rank, static_cast<int>(passed));
    close();
  }
}

// A stop that the host has not sent is a loss, whoever wrote it.
TEST_P(LinkConformance, ARankThatEndsUnaskedIsLost) {
  open(3);
  SKIP_WITHOUT_LINK(link_);
  send(*link_, 1, {.run = 1});
  send(*link_, 1, {.kind = Message::stop});
  std::vector<LostRank> lost;
  while (lost.empty() && base::wait_readable(link_->events_fd(), hang_limit())) {
    lost = link_->take_lost();
  }
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].rank, 1);
  EXPECT_THAT(lost[0].end, ::testing::AnyOf(HasSubstr("exited with status 0"),
                                            HasSubstr("ended though nobody had told it to")));
  EXPECT_TRUE(link_->take_lost().empty()) << "once";
  EXPECT_FALSE(base::wait_readable(link_->events_fd(), base::Deadline::at(0)));
  link_->retire_lost_rank(1, base::TimelineValue::make(1, 1));
  for (const int rank : {0, 2}) {
    send(*link_, rank, {.run = 1});
    EXPECT_TRUE(wait_for_run(*link_, rank, 1));
  }
  close();
}

TEST_P(LinkConformance, WhoWasToldToEndIsNotLost) {
  open(4);
  SKIP_WITHOUT_LINK(link_);
  tell_to_stop(*link_);
  for (int look = 0; look < 100; ++look) EXPECT_TRUE(link_->take_lost().empty());
  EXPECT_EQ(link_->stop(hang_limit()), std::vector<int>{});
  EXPECT_TRUE(link_->take_lost().empty());
}

TEST_P(LinkConformance, ALinkThatCannotRestartRanksSaysSo) {
  open(2);
  SKIP_WITHOUT_LINK(link_);
  if (link_->can_restart_ranks()) {
    EXPECT_NE(link_->process_of(1), getpid());
  } else {
    EXPECT_EQ(link_->kill(0), "");
    EXPECT_EQ(link_->restart(0, hang_limit()).code, ErrorCode::unsupported);
    EXPECT_EQ(link_->process_of(1), getpid());
  }
  close();
}

std::vector<std::string> all_kinds() {
  std::vector<std::string> names;
  for (const LinkKind& kind : link_kinds()) names.emplace_back(kind.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllKinds, LinkConformance, ::testing::ValuesIn(all_kinds()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace rankcast::link
