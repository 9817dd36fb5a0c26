// The doorbell on the machine itself: threads, rings and timelines together, many rounds.
#include "base/doorbell.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>
#include <vector>

#include "base/host_waiters.h"
#include "base/record_ring.h"
#include "base/timeline.h"

namespace rankcast::base {
namespace {

constexpr std::int64_t kHangLimitNs = 120'000'000'000;

TEST(DoorbellTest, RingWithoutSleepersWakesNobody) {
  Doorbell doorbell;
  EXPECT_EQ(doorbell.ring_asleep(RankSet::first(kMaxRanks)), 0);
  EXPECT_EQ(doorbell.ring_waiting(RankSet::first(8)), 0);
  EXPECT_EQ(doorbell.listen(), 2u);
}

TEST(DoorbellTest, OnlyBitsRungOfTheRightMaskCount) {
  Doorbell doorbell;
  doorbell.prepare_sleep(40);
  EXPECT_TRUE(doorbell.is_asleep(40));
  EXPECT_FALSE(doorbell.is_waiting(40));
  EXPECT_EQ(doorbell.ring_asleep(RankSet::of(41)), 0);
  EXPECT_EQ(doorbell.ring_asleep(RankSet::of(8)), 0);  // the same futex bit
  EXPECT_EQ(doorbell.ring_waiting(RankSet::of(40)), 0);
  EXPECT_EQ(doorbell.ring_asleep(RankSet::of(40)), 1);
  doorbell.finish_sleep(40);
  EXPECT_EQ(doorbell.ring_asleep(RankSet::of(40)), 0);
  doorbell.prepare_wait(1023);
  EXPECT_EQ(doorbell.ring_waiting(RankSet::of(1023)), 1);
  doorbell.finish_wait(1023);
  EXPECT_FALSE(doorbell.is_waiting(1023));
}

TEST(DoorbellTest, DeadRankLeavesNoBit) {
  Doorbell doorbell;
  doorbell.prepare_sleep(70);
  doorbell.prepare_wait(70);
  doorbell.prepare_sleep(71);
  doorbell.clear_for_dead_rank(70);
  EXPECT_FALSE(doorbell.is_asleep(70));
  EXPECT_FALSE(doorbell.is_waiting(70));
  EXPECT_TRUE(doorbell.is_asleep(71));
}

TEST(DoorbellTest, WaitEndsAtItsDeadline) {
  Doorbell doorbell;
  const auto never = [] { return false; };
  EXPECT_EQ(doorbell.wait_asleep(0, never, SpinPolicy::none(), Deadline::after(1'000'000)),
            WaitResult::timed_out);
  EXPECT_EQ(doorbell.wait_inside_frame(0, never, SpinPolicy{}, Deadline::after(0)),
            WaitResult::timed_out);
  EXPECT_FALSE(doorbell.is_asleep(0));
  EXPECT_FALSE(doorbell.is_waiting(0));
  EXPECT_EQ(doorbell.wait_asleep(
                0, [] { return true; }, SpinPolicy{}, Deadline::after(0)),
            WaitResult::ready);
}

TEST(DoorbellTest, RingEveryoneReachesBothKinds) {
  Doorbell doorbell;
  std::atomic<std::uint32_t> go{0};
  std::array<WaitResult, 2> results = {WaitResult::timed_out, WaitResult::timed_out};
  const auto ready = [&] { return load_seq_cst(go) != 0; };
  std::thread asleep([&] {
    results[0] = doorbell.wait_asleep(2, ready, SpinPolicy::none(), Deadline::after(kHangLimitNs));
  });
  std::thread waiting([&] {
    results[1] =
        doorbell.wait_inside_frame(99, ready, SpinPolicy::none(), Deadline::after(kHangLimitNs));
  });
  store_seq_cst(go, 1u);
  doorbell.ring_everyone();
  asleep.join();
  waiting.join();
  EXPECT_EQ(results[0], WaitResult::ready);
  EXPECT_EQ(results[1], WaitResult::ready);
}

struct Record {
  std::array<std::uint64_t, 8> words;
};

struct Rank {
  RingTail tail;
  RingHead head;
  Timeline timeline;
  std::array<Record, 4> slots{};
};

// A small mesh: the host publishes runs to random sets of ranks and waits for them, each rank takes
// records, waits for its left neighbour's part of the same run inside the frame, and advances its
// timeline.
struct SmallMesh {
  explicit SmallMesh(std::size_t count) : ranks(count) {}

  Doorbell doorbell;
  HostWaiters host;
  std::vector<Rank> ranks;
  std::atomic<int> timeouts{0};

  static constexpr std::uint64_t kStop = ~std::uint64_t{0};

  void run_rank(int rank, SpinPolicy spin) {
    Rank& own = ranks[static_cast<std::size_t>(rank)];
    RingReader<Record> ring(own.tail, own.head, own.slots);
    for (;;) {
      const WaitResult came = doorbell.wait_asleep(
          rank, [&] { return ring.has_record(); }, spin, Deadline::after(kHangLimitNs));
      if (came == WaitResult::timed_out) {
        ++timeouts;
        return;
      }
      const Record record = ring.take();
      if (record.words[0] == kStop) return;
      const auto done = TimelineValue::make(record.words[0], 1);
      const auto left = static_cast<std::int64_t>(record.words[1]);
      if (left >= 0) {
        const Timeline& peer = ranks[static_cast<std::size_t>(left)].timeline;
        const WaitResult reached = doorbell.wait_inside_frame(
            rank, [&] { return peer.reached(done); }, spin, Deadline::after(kHangLimitNs));
        timeouts += reached == WaitResult::timed_out;
      }
      own.timeline.advance(done);
      const auto right = static_cast<std::int64_t>(record.words[2]);
      if (right >= 0) doorbell.ring_waiting(RankSet::of(static_cast<int>(right)));
      host.notify();
    }
  }

  // One run over `members`, lowest first; returns false if it did not come back.
  bool run(std::vector<RingWriter<Record>>& writers, std::uint64_t number,
           const std::vector<int>& members, SpinPolicy spin) {
    RankSet rung;
    for (std::size_t i = 0; i < members.size(); ++i) {
      Record record{};
      record.words[0] = number;
      record.words[1] = static_cast<std::uint64_t>(i == 0 ? -1 : members[i - 1]);
      record.words[2] = static_cast<std::uint64_t>(i + 1 == members.size() ? -1 : members[i + 1]);
      writers[static_cast<std::size_t>(members[i])].write(record);
      rung.insert(members[i]);
    }
    for (const int member : members) writers[static_cast<std::size_t>(member)].publish();
    doorbell.ring_asleep(rung);
    const auto done = TimelineValue::make(number, 1);
    const auto all_done = [&] {
      for (const int member : members) {
        if (!ranks[static_cast<std::size_t>(member)].timeline.reached(done)) return false;
      }
      return true;
    };
    return host.wait(all_done, spin, Deadline::after(kHangLimitNs)) == WaitResult::ready;
  }
};

void run_mesh(int rank_count, std::uint64_t rounds, SpinPolicy spin) {
  SmallMesh mesh(static_cast<std::size_t>(rank_count));
  std::vector<std::thread> threads;
  std::vector<RingWriter<Record>> writers;
  for (int rank = 0; rank < rank_count; ++rank) {
    Rank& own = mesh.ranks[static_cast<std::size_t>(rank)];
    writers.emplace_back(own.tail, own.head, own.slots);
    threads.emplace_back([&mesh, rank, spin] { mesh.run_rank(rank, spin); });
  }
  std::mt19937 random(7);
  std::uint64_t lost = 0;
  for (std::uint64_t number = 1; number <= rounds && lost == 0; ++number) {
    std::vector<int> members;
    const std::uint32_t one_in = 1 + random() % 4;
    for (int rank = 0; rank < rank_count; ++rank) {
      if (random() % one_in == 0) members.push_back(rank);
    }
    if (!mesh.run(writers, number, members, spin)) ++lost;
  }
  Record stop{};
  stop.words[0] = SmallMesh::kStop;
  for (auto& writer : writers) {
    writer.write(stop);
    writer.publish();
  }
  mesh.doorbell.ring_asleep(RankSet::first(rank_count));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(mesh.timeouts, 0);
  EXPECT_EQ(mesh.host.count(), 0u);
  for (int rank = 0; rank < rank_count; ++rank) {
    EXPECT_FALSE(mesh.doorbell.is_asleep(rank));
    EXPECT_FALSE(mesh.doorbell.is_waiting(rank));
  }
}

TEST(DoorbellTest, EightRanksThatSleepAtOnce) { run_mesh(8, 2'000, SpinPolicy::none()); }

TEST(DoorbellTest, EightRanksThatSpinAndYield) { run_mesh(8, 2'000, SpinPolicy{20'000, true}); }

TEST(DoorbellTest, TwoRanksThatSpin) { run_mesh(2, 1'000, SpinPolicy{5'000, false}); }

TEST(DoorbellTest, SeventyRanksInTwoWords) { run_mesh(70, 150, SpinPolicy::none()); }

}  // namespace
}  // namespace rankcast::base
