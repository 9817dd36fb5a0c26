// PROTOCOL P3, all schedules: no wake-up is lost. The mutants show that the test can fail.
#include <gtest/gtest.h>

#include <array>

#include "base/doorbell.h"
#include "base/record_ring.h"
#include "base/stepping_atomic.h"
#include "base/stepping_report.h"
#include "base/timeline.h"

namespace rankcast::base::stepping {
namespace {

constexpr const char* kLost = "for ever waiting";

struct Record {
  std::array<std::uint64_t, 8> words;

  static Record numbered(std::uint64_t number) {
    return Record{{number, 0, 0, 0, 0, 0, 0, number}};
  }
};

// A rank's ring with two slots; `Atomics` may differ from the doorbell's.
template <class Atomics>
struct Ring {
  BasicRingTail<Atomics> tail;
  BasicRingHead<Atomics> head;
  std::array<SteppedPlain<Record>, 2> slots;

  RingWriter<Record, Atomics> writer() { return {tail, head, slots}; }
  RingReader<Record, Atomics> reader() { return {tail, head, slots}; }
};

template <class Atomics>
void take_in_order(RingReader<Record, Atomics>& reader) {
  const std::uint64_t expected = reader.taken() + 1;
  const Record record = reader.take();
  Stepper::require(record.words[0] == expected && record.words[7] == expected,
                   "a torn or stale record");
}

// One rank takes `records`; one publisher publishes each with a ring of its own.
template <class BellAtomics, class RingAtomics>
Exploration sleep_against_publish(std::uint64_t records) {
  Stepper stepper;
  BasicDoorbell<BellAtomics> doorbell;
  Ring<RingAtomics> ring;
  stepper.add_thread([&] {
    auto reader = ring.reader();
    while (reader.taken() < records) {
      doorbell.wait_asleep(
          3, [&] { return reader.has_record(); }, SpinPolicy::none(), Deadline::never());
      take_in_order(reader);
    }
    return reader.taken();
  });
  stepper.add_thread([&] {
    auto writer = ring.writer();
    int wakes = 0;
    for (std::uint64_t number = 1; number <= records; ++number) {
      writer.write(Record::numbered(number));
      writer.publish();
      wakes += doorbell.ring_asleep(RankSet::of(3));
    }
    return static_cast<std::uint64_t>(wakes);
  });
  stepper.set_final_check([&](const Stepper::Results& results) {
    return results[0] == records && results[1] <= records && !doorbell.is_asleep(3);
  });
  return stepper.explore();
}

using WeakMasks = SteppedAtomics<Weakening::none, Weakening::seq_cst_to_acq_rel>;
using WeakBell = SteppedAtomics<Weakening::seq_cst_to_acq_rel, Weakening::none>;
using WeakTail = SteppedAtomics<Weakening::none, Weakening::seq_cst_to_acq_rel>;

TEST(DoorbellSteppingTest, RankAgainstPublisher) {
  expect_good(sleep_against_publish<Faithful, Faithful>(1));
  expect_good(sleep_against_publish<Faithful, Faithful>(2));
}

TEST(DoorbellSteppingTest, MutantAsleepBitNotSeqCst) {
  expect_found(sleep_against_publish<WeakMasks, Faithful>(1), kLost);
}

TEST(DoorbellSteppingTest, MutantBellNotSeqCst) {
  expect_found(sleep_against_publish<WeakBell, Faithful>(1), kLost);
}

TEST(DoorbellSteppingTest, MutantTailAndBellNotSeqCst) {
  expect_found(sleep_against_publish<WeakBell, WeakTail>(1), kLost);
}

TEST(DoorbellSteppingTest, TwoPublishersAgainstRank) {
  Stepper stepper;
  BasicDoorbell<Faithful> doorbell;
  Ring<Faithful> ring;
  SteppedMutex mutex;
  stepper.add_thread([&] {
    auto reader = ring.reader();
    while (reader.taken() < 2) {
      doorbell.wait_asleep(
          0, [&] { return reader.has_record(); }, SpinPolicy::none(), Deadline::never());
      take_in_order(reader);
    }
    return reader.taken();
  });
  for (int publisher = 0; publisher < 2; ++publisher) {
    stepper.add_thread([&] {
      mutex.lock();
      auto writer = ring.writer();
      writer.write(Record::numbered(writer.published() + 1));
      writer.publish();
      mutex.unlock();
      return static_cast<std::uint64_t>(doorbell.ring_asleep(RankSet::of(0)));
    });
  }
  stepper.set_final_check(
      [&](const Stepper::Results& results) { return results[0] == 2 && !doorbell.is_asleep(0); });
  expect_good(stepper.explore());
}

// Ranks 1 and 33 share a futex bit and lie in one word, rank 65 shares the bit and lies in another
// word.
Exploration two_ranks_one_ring(int second_rank) {
  Stepper stepper;
  BasicDoorbell<Faithful> doorbell;
  std::array<Faithful::Word64, 2> tails;
  const std::array<int, 2> ranks = {1, second_rank};
  for (std::size_t i = 0; i < 2; ++i) {
    stepper.add_thread([&, i] {
      doorbell.wait_asleep(
          ranks[i], [&] { return load_seq_cst(tails[i]) != 0; }, SpinPolicy::none(),
          Deadline::never());
      return 0u;
    });
  }
  stepper.add_thread([&] {
    for (auto& tail : tails) store_seq_cst(tail, 1);
    RankSet rung;
    for (const int rank : ranks) rung.insert(rank);
    return static_cast<std::uint64_t>(doorbell.ring_asleep(rung));
  });
  stepper.set_final_check([&](const Stepper::Results& results) {
    return results[2] <= 1 && !doorbell.is_asleep(1) && !doorbell.is_asleep(second_rank);
  });
  return stepper.explore();
}

TEST(DoorbellSteppingTest, TwoRanksThatShareAFutexBit) {
  expect_good(two_ranks_one_ring(33));
  expect_good(two_ranks_one_ring(65));
}

TEST(DoorbellSteppingTest, TwoRanksOfDifferentBits) { expect_good(two_ranks_one_ring(2)); }

// A wake that goes to a rank of the same futex bit, which has nothing to do, must not be taken for
// the other's.
TEST(DoorbellSteppingTest, OnlyOneOfTwoSleepersIsRung) {
  Stepper stepper;
  BasicDoorbell<Faithful> doorbell;
  Faithful::Word64 first;
  Faithful::Word64 second;
  stepper.add_thread([&] {
    doorbell.wait_asleep(
        0, [&] { return load_seq_cst(first) != 0; }, SpinPolicy::none(), Deadline::never());
    return 0u;
  });
  stepper.add_thread([&] {
    doorbell.wait_asleep(
        32, [&] { return load_seq_cst(second) != 0; }, SpinPolicy::none(), Deadline::never());
    return 0u;
  });
  stepper.add_thread([&] {
    store_seq_cst(first, 1);
    doorbell.ring_asleep(RankSet::of(0));
    store_seq_cst(second, 1);
    doorbell.ring_asleep(RankSet::of(32));
    return 0u;
  });
  expect_good(stepper.explore());
}

// A rank inside a frame waits for a peer's timeline; a third thread may abort it.
template <class BellAtomics, class WordAtomics>
Exploration wait_inside_frame(bool peer_comes, bool abort_comes) {
  Stepper stepper;
  BasicDoorbell<BellAtomics> doorbell;
  BasicTimeline<WordAtomics> timeline;
  typename WordAtomics::Word64 abort_word;
  const TimelineValue wanted = TimelineValue::make(5, 2);
  stepper.add_thread([&] {
    doorbell.wait_inside_frame(
        0, [&] { return timeline.reached(wanted) || load_seq_cst(abort_word) != 0; },
        SpinPolicy::none(), Deadline::never());
    return 0u;
  });
  if (peer_comes) {
    stepper.add_thread([&] {
      timeline.advance(TimelineValue::make(5, 1));
      doorbell.ring_waiting(RankSet::of(0));
      timeline.advance(wanted);
      doorbell.ring_waiting(RankSet::of(0));
      return 0u;
    });
  }
  if (abort_comes) {
    stepper.add_thread([&] {
      store_seq_cst(abort_word, 1);
      doorbell.ring_waiting(RankSet::of(0));
      return 0u;
    });
  }
  stepper.set_final_check([&](const Stepper::Results&) { return !doorbell.is_waiting(0); });
  return stepper.explore();
}

TEST(DoorbellSteppingTest, RankInsideFrame) {
  expect_good(wait_inside_frame<Faithful, Faithful>(true, false));
  expect_good(wait_inside_frame<Faithful, Faithful>(false, true));
  expect_good(wait_inside_frame<Faithful, Faithful>(true, true));
}

TEST(DoorbellSteppingTest, MutantWaitingBitNotSeqCst) {
  expect_found(wait_inside_frame<WeakMasks, Faithful>(true, false), kLost);
}

TEST(DoorbellSteppingTest, MutantBellNotSeqCstInsideFrame) {
  expect_found(wait_inside_frame<WeakBell, Faithful>(true, false), kLost);
}

TEST(DoorbellSteppingTest, MutantTimelineAndBellNotSeqCst) {
  expect_found(wait_inside_frame<WeakBell, WeakTail>(true, false), kLost);
}

// A sleeper of one kind is not woken by a ring of the other, which is what the two masks are for.
TEST(DoorbellSteppingTest, MutantRingsTheOtherMask) {
  Stepper stepper;
  BasicDoorbell<Faithful> doorbell;
  Faithful::Word64 word;
  stepper.add_thread([&] {
    doorbell.wait_inside_frame(
        0, [&] { return load_seq_cst(word) != 0; }, SpinPolicy::none(), Deadline::never());
    return 0u;
  });
  stepper.add_thread([&] {
    store_seq_cst(word, 1);
    doorbell.ring_asleep(RankSet::of(0));
    return 0u;
  });
  expect_found(stepper.explore(), kLost);
}

// A deadline may pass at any moment: the wait ends, tells the truth and leaves no bit behind.
TEST(DoorbellSteppingTest, DeadlineAtAnyMoment) {
  Stepper stepper;
  BasicDoorbell<Faithful> doorbell;
  Faithful::Word64 word;
  stepper.add_thread([&] {
    const WaitResult result = doorbell.wait_asleep(
        0, [&] { return load_seq_cst(word) != 0; }, SpinPolicy::none(), Deadline::at(1));
    if (result == WaitResult::ready) Stepper::require(load_seq_cst(word) != 0, "ready too early");
    return 0u;
  });
  stepper.add_thread([&] {
    store_seq_cst(word, 1);
    doorbell.ring_asleep(RankSet::of(0));
    return 0u;
  });
  stepper.set_final_check([&](const Stepper::Results&) { return !doorbell.is_asleep(0); });
  expect_good(stepper.explore());
}

// The steps by hand, each order of them that P3 forbids.
enum class RankOrder { as_it_should, no_second_look, listens_last };
enum class PublisherOrder { as_it_should, rings_before_it_stores };

Exploration by_hand(RankOrder rank_order, PublisherOrder publisher_order) {
  Stepper stepper;
  BasicDoorbell<Faithful> doorbell;
  Faithful::Word64 tail;
  stepper.add_thread([&, rank_order] {
    const auto look = [&] { return load_seq_cst(tail) != 0; };
    while (!look()) {
      std::uint32_t heard = doorbell.listen();
      doorbell.prepare_sleep(0);
      if (rank_order == RankOrder::no_second_look || !look()) {
        if (rank_order == RankOrder::listens_last) heard = doorbell.listen();
        doorbell.sleep(0, heard, Deadline::never());
      }
      doorbell.finish_sleep(0);
    }
    return 0u;
  });
  stepper.add_thread([&, publisher_order] {
    if (publisher_order == PublisherOrder::as_it_should) store_seq_cst(tail, 1);
    doorbell.ring_asleep(RankSet::of(0));
    if (publisher_order == PublisherOrder::rings_before_it_stores) store_seq_cst(tail, 1);
    return 0u;
  });
  return stepper.explore();
}

TEST(DoorbellSteppingTest, StepsByHand) {
  expect_good(by_hand(RankOrder::as_it_should, PublisherOrder::as_it_should));
}

TEST(DoorbellSteppingTest, MutantNoSecondLook) {
  expect_found(by_hand(RankOrder::no_second_look, PublisherOrder::as_it_should), kLost);
}

TEST(DoorbellSteppingTest, MutantListensLast) {
  expect_found(by_hand(RankOrder::listens_last, PublisherOrder::as_it_should), kLost);
}

TEST(DoorbellSteppingTest, MutantRingsBeforeItStores) {
  expect_found(by_hand(RankOrder::as_it_should, PublisherOrder::rings_before_it_stores), kLost);
}

}  // namespace
}  // namespace rankcast::base::stepping
