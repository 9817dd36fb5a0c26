// tests: src/link/thread.cc
//
// The one suite for links: every kind of link that this build knows runs it. A kind that this
// machine cannot have skips with its reason; one that is there must pass.
// tests: src/link/thread.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

#include "base/fault_point.h"
#include "link/link.h"
#include "link/ranks.h"

namespace rankcast::link {
namespace {

using ::testing::HasSubstr;

class LinkConformance : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { base::disarm_all_fault_points(); }

  /// Null after a skip or a failure.
  std::unique_ptr<Link> create(int world_size, std::uint32_t ring_capacity = 16,
                               std::uint64_t shared_bytes = 0) {
    LinkOptions options;
    options.world_size = world_size;
    options.ring_capacity = ring_capacity;
    options.shared_bytes = shared_bytes;
    options.spin = default_spin(world_size, 50'000);
    auto link = find_link(GetParam()).value()->create(options);
    if (link) return std::move(*link);
    if (link.error().code != ErrorCode::unsupported) ADD_FAILURE() << link.error().text;
    reason_ = link.error().text;
    return nullptr;
  }

  static base::Status start(Link& link, const std::shared_ptr<Ranks>& ranks) {
    return link.start({[ranks](RankPort& port) { ranks->main(port); }, {}}, hang_limit());
  }

  /// Creates and starts; the test ends here where the kind is not available.
  void open(int world_size, Ranks::Act act = {}, std::uint32_t ring_capacity = 16,
            std::uint64_t shared_bytes = 0) {
    link_ = create(world_size, ring_capacity, shared_bytes);
    if (link_ == nullptr) return;
    ranks_ = std::make_shared<Ranks>(world_size, std::move(act));
    const base::Status status = start(*link_, ranks_);
    ASSERT_TRUE(status.ok()) << status.text;
  }

  void close() {
    tell_to_stop(*link_);
    EXPECT_EQ(link_->stop(hang_limit()), std::vector<int>{});
    link_.reset();
  }

  std::string reason_;
  std::unique_ptr<Link> link_;
  std::shared_ptr<Ranks> ranks_;
};

#define SKIP_WITHOUT_LINK(link) \
  if ((link) == nullptr) GTEST_SKIP() << GetParam() << ": " << reason_

TEST_P(LinkConformance, StartsAndStopsOneToSixtyFourRanks) {
  for (const int world_size : {1, 2, 3, 8, 33, 64}) {
    open(world_size);
    SKIP_WITHOUT_LINK(link_);
    EXPECT_EQ(link_->world_size(), world_size);
    EXPECT_EQ(link_->name(), GetParam());
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_EQ(ranks_->port(rank).rank(), rank);
      EXPECT_EQ(ranks_->port(rank).world_size(), world_size);
      EXPECT_EQ(link_->timeline(rank).load().bits, 0u);
      send(*link_, rank, {.run = 1, .value = static_cast<std::uint64_t>(rank)});
    }
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_TRUE(wait_for_run(*link_, rank, 1));
      EXPECT_EQ(ranks_->seen(rank), std::vector<std::uint64_t>{static_cast<std::uint64_t>(rank)});
    }
    close();
  }
}

TEST_P(LinkConformance, ARankThatCannotStartSaysWhy) {
  for (const int bad : {0, 3}) {
    link_ = create(4);
    SKIP_WITHOUT_LINK(link_);
    ranks_ = std::make_shared<Ranks>(4);
    const auto main = [ranks = ranks_, bad](RankPort& port) {
      if (port.rank() == bad) {
        port.report(
            base::failure(ErrorCode::unsupported, "no such device {}", std::string(1000, 'x')));
      } else {
        ranks->main(port);
      }
    };
    const base::Status status = link_->start({main, {}}, hang_limit());
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
  ranks_ = std::make_shared<Ranks>(3);
  auto go_on = std::make_shared<std::atomic<bool>>(false);
  const auto main = [ranks = ranks_, go_on](RankPort& port) {
    if (port.rank() == 1 && !eventually([&] { return go_on->load(); })) return;
    ranks->main(port);
  };
  const base::Status status = link_->start({main, {}}, base::Deadline::after(20'000'000));
  EXPECT_EQ(status.code, ErrorCode::deadline_exceeded);
  EXPECT_EQ(status.rank, 1);
  EXPECT_THAT(status.text, HasSubstr("rank 1"));
  go_on->store(true);
  close();
}

TEST_P(LinkConformance, RecordsArriveInTheOrderOfPublication) {
  constexpr int kWorld = 3;
  constexpr std::uint64_t kMessages = 5000;
  open(kWorld, {}, 8);
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
    EXPECT_EQ(ranks_->seen(rank), expected);
  }
  close();
}

TEST_P(LinkConformance, SeveralPublishersUnderOneLock) {
  constexpr int kWorld = 4;
  constexpr int kPublishers = 4;
  constexpr std::uint64_t kEach = 400;
  open(kWorld, {}, 2048);
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
  std::vector<std::uint64_t> all = ranks_->seen(0);
  for (int rank = 1; rank < kWorld; ++rank)
    EXPECT_EQ(ranks_->seen(rank), all) << "the order is the same on all ranks";
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
    EXPECT_EQ(ranks_->seen(rank).size(), runs[static_cast<std::size_t>(rank)]) << rank;
  }
  ASSERT_TRUE(all_asleep());
  close();
}

TEST_P(LinkConformance, ARankWaitsInsideAFrameUntilItIsWoken) {
  auto word = std::make_shared<std::atomic<std::uint64_t>>(0);
  open(2, [word](RankPort& port, const Message& message) {
    port.wait_until([&]() noexcept { return base::load_seq_cst(*word) >= message.value; });
  });
  SKIP_WITHOUT_LINK(link_);
  if (!link_->shares_host_memory()) GTEST_SKIP() << "the word is of this process";
  for (std::uint64_t round = 1; round <= 50; ++round) {
    send(*link_, 1, {.kind = Message::act, .run = round, .value = round});
    if (round % 5 == 0) {
      ASSERT_TRUE(eventually([&] { return link_->control().doorbell().is_waiting(1); }));
    }
    EXPECT_FALSE(link_->timeline(1).reached(base::TimelineValue::make(round, 1)));
    base::store_seq_cst(*word, round);
    ranks_->port(1).wake();
    ASSERT_TRUE(wait_for_run(*link_, 1, round));
  }
  close();
}

TEST_P(LinkConformance, RanksReachSegmentsThatWereAdded) {
  constexpr std::uint64_t kBytes = 100'000;
  open(2, [](RankPort& port, const Message& message) {
    std::uint64_t bytes = 0;
    std::byte* base = port.segment(static_cast<std::uint32_t>(message.value), &bytes);
    if (base == nullptr) return;
    // Every byte plus one; the last tells that the size was right.
    for (std::uint64_t i = 0; i < kBytes; ++i)
      base[i] = static_cast<std::byte>(std::to_integer<int>(base[i]) + 1 + port.rank());
    if (bytes < kBytes) base[0] = std::byte{0xff};
  });
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
    send(*link_, rank, {.kind = Message::act, .run = run, .value = *id});
    ASSERT_TRUE(wait_for_run(*link_, rank, run));
    for (std::uint64_t at = 0; at < kBytes; ++at)
      ASSERT_EQ(base[at], static_cast<std::byte>(11 + i + rank));
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end()) << "an id was given twice";
  close();
}

TEST_P(LinkConformance, NobodyReachesSegmentsThatWereNot) {
  auto answers = std::make_shared<std::atomic<int>>(0);
  open(1, [answers](RankPort& port, const Message&) {
    for (const std::uint32_t id : {1u, 16383u, 16384u, 0xffffffffu}) {
      std::uint64_t bytes = 77;
      if (port.segment(id, &bytes) == nullptr) answers->fetch_add(1);
    }
  });
  SKIP_WITHOUT_LINK(link_);
  ASSERT_TRUE(link_->add_segment(4096, 0, Access::owner_writes));
  send(*link_, 0, {.kind = Message::act, .run = 1});
  ASSERT_TRUE(wait_for_run(*link_, 0, 1));
  if (link_->shares_host_memory()) {
    EXPECT_EQ(answers->load(), 4);
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
  open(
      3,
      [](RankPort& port, const Message& message) {
        port.shared()[message.value] = static_cast<std::byte>(port.rank() + 1);
      },
      16, 1000);
  SKIP_WITHOUT_LINK(link_);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(link_->shared()[i], std::byte{0});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(link_->shared()) % base::kCacheLine, 0u);
  const std::uint64_t places[] = {0, 500, 999};
  for (int rank = 0; rank < 3; ++rank) {
    send(*link_, rank, {.kind = Message::act, .run = 1, .value = places[rank]});
  }
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(wait_for_run(*link_, rank, 1));
    EXPECT_EQ(link_->shared()[places[rank]], static_cast<std::byte>(rank + 1));
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

TEST_P(LinkConformance, StopNamesThoseThatHaveNot) {
  auto go_on = std::make_shared<std::atomic<bool>>(false);
  open(4, [go_on](RankPort&, const Message&) {
    EXPECT_TRUE(eventually([&] { return go_on->load(); }));
  });
  SKIP_WITHOUT_LINK(link_);
  if (!link_->shares_host_memory()) GTEST_SKIP() << "the flag is of this process";
  for (const int rank : {1, 2}) send(*link_, rank, {.kind = Message::act, .run = 1});
  tell_to_stop(*link_);
  EXPECT_EQ(link_->stop(base::Deadline::after(20'000'000)), (std::vector<int>{1, 2}));
  EXPECT_EQ(link_->stop(base::Deadline::after(0)), (std::vector<int>{1, 2}));
  go_on->store(true);
  EXPECT_EQ(link_->stop(hang_limit()), std::vector<int>{});
  EXPECT_EQ(link_->stop(hang_limit()), std::vector<int>{}) << "again";
}

TEST_P(LinkConformance, WhatAStuckRankUsesOutlivesTheLink) {
  auto go_on = std::make_shared<std::atomic<bool>>(false);
  auto ended = std::make_shared<std::atomic<bool>>(false);
  std::uint32_t segment = 0;
  open(2, [=](RankPort& port, const Message& message) {
    EXPECT_TRUE(eventually([&] { return go_on->load(); }));
    std::uint64_t bytes = 0;
    std::byte* base = port.segment(static_cast<std::uint32_t>(message.value), &bytes);
    base[bytes - 1] = std::byte{1};
    ended->store(true);
  });
  SKIP_WITHOUT_LINK(link_);
  if (!link_->shares_host_memory()) GTEST_SKIP() << "the flag is of this process";
  segment = link_->add_segment(8192, 0, Access::owner_writes).value();
  send(*link_, 1, {.kind = Message::act, .run = 1, .value = segment});
  tell_to_stop(*link_);
  EXPECT_EQ(link_->stop(base::Deadline::after(10'000'000)), std::vector<int>{1});
  link_.reset();
  go_on->store(true);
  EXPECT_TRUE(eventually([&] { return ended->load(); }));
}

TEST_P(LinkConformance, AStartThatFailsHalfWayCanBeStopped) {
  for (std::uint32_t passed = 0; passed < 3; ++passed) {
    link_ = create(3);
    SKIP_WITHOUT_LINK(link_);
    ranks_ = std::make_shared<Ranks>(3);
    base::record_fault_points(true);
    base::arm_fault_point("link.start_" + GetParam(), passed);
    const base::Status status = start(*link_, ranks_);
    base::record_fault_points(false);
    EXPECT_EQ(base::armed_fault_points(), 0) << "a link has the fault point link.start_<its name>";
    EXPECT_EQ(status.code, ErrorCode::out_of_memory);
    EXPECT_EQ(status.rank, static_cast<int>(passed));
    close();
  }
}

// What these ranks run is a closure of this process.
std::vector<std::string> kinds_in_this_process() { return {"thread"}; }

INSTANTIATE_TEST_SUITE_P(AllKinds, LinkConformance, ::testing::ValuesIn(kinds_in_this_process()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace rankcast::link
