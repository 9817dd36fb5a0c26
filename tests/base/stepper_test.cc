// The model itself, by litmus tests: what it must allow, and what it must not.
#include "base/stepper.h"

#include <gtest/gtest.h>

#include "base/atomic.h"
#include "base/stepping_atomic.h"

namespace rankcast::base::stepping {
namespace {

using Word = SteppedAtomic<std::uint64_t>;

// Two threads each store one word and load the other's; can both miss?
template <class Store>
Exploration store_buffering(Store store) {
  Stepper stepper;
  Word x;
  Word y;
  stepper.add_thread([&] {
    store(x);
    return load_seq_cst(y);
  });
  stepper.add_thread([&] {
    store(y);
    return load_seq_cst(x);
  });
  stepper.set_final_check(
      [](const Stepper::Results& results) { return results[0] != 0 || results[1] != 0; });
  return stepper.explore();
}

TEST(StepperTest, StoresWeakerThanSeqCstPassLaterLoads) {
  EXPECT_FALSE(store_buffering([](Word& word) { store_relaxed(word, 1); }).good());
  EXPECT_FALSE(store_buffering([](Word& word) { store_release(word, 1); }).good());
  EXPECT_TRUE(store_buffering([](Word& word) { store_seq_cst(word, 1); }).good());
}

TEST(StepperTest, ReadModifyWritesWeakerThanSeqCstPassLaterLoads) {
  EXPECT_FALSE(store_buffering([](Word& word) { fetch_add_relaxed(word, 1); }).good());
  EXPECT_FALSE(store_buffering([](Word& word) { fetch_or_acq_rel(word, 1); }).good());
  EXPECT_TRUE(store_buffering([](Word& word) { exchange_seq_cst(word, 1); }).good());
}

// One thread writes data, then a flag; can the other see the flag without the data?
template <class Store>
Exploration message_passing(Store store) {
  Stepper stepper;
  Word data;
  Word flag;
  stepper.add_thread([&] {
    store_relaxed(data, 7);
    store(flag);
    return 0u;
  });
  stepper.add_thread([&] {
    const std::uint64_t flagged = load_acquire(flag);
    return flagged * 10 + load_relaxed(data);
  });
  stepper.set_final_check([](const Stepper::Results& results) { return results[1] != 10; });
  return stepper.explore();
}

TEST(StepperTest, OnlyRelaxedStoresPassEarlierStores) {
  EXPECT_FALSE(message_passing([](Word& word) { store_relaxed(word, 1); }).good());
  EXPECT_TRUE(message_passing([](Word& word) { store_release(word, 1); }).good());
  EXPECT_TRUE(message_passing([](Word& word) { fetch_add_acq_rel(word, 1); }).good());
}

// The same with the reader's load of the flag weakened.
template <class Load>
Exploration message_reading(Load load) {
  Stepper stepper;
  Word data;
  Word flag;
  data.mark_for_stale_loads();
  flag.mark_for_stale_loads();
  stepper.add_thread([&] {
    store_relaxed(data, 7);
    store_release(flag, 1);
    return 0u;
  });
  stepper.add_thread([&] {
    const std::uint64_t flagged = load(flag);
    return flagged * 10 + load_relaxed(data);
  });
  stepper.set_final_check([](const Stepper::Results& results) { return results[1] != 10; });
  return stepper.explore();
}

TEST(StepperTest, OnlyRelaxedLoadsAreFollowedByOlderValues) {
  EXPECT_FALSE(message_reading([](Word& word) { return load_relaxed(word); }).good());
  EXPECT_TRUE(message_reading([](Word& word) { return load_acquire(word); }).good());
  EXPECT_TRUE(message_reading([](Word& word) { return load_seq_cst(word); }).good());
}

TEST(StepperTest, ValuesOfOneCellNeverGoBack) {
  Stepper stepper;
  Word word;
  word.mark_for_stale_loads();
  stepper.add_thread([&] {
    for (std::uint64_t value = 1; value <= 3; ++value) store_relaxed(word, value);
    return 0u;
  });
  stepper.add_thread([&] {
    const std::uint64_t first = load_relaxed(word);
    const std::uint64_t second = load_relaxed(word);
    Stepper::require(first <= second, "went back");
    return first * 10 + second;
  });
  bool stale_seen = false;
  stepper.set_final_check([&](const Stepper::Results& results) {
    stale_seen = stale_seen || results[1] == 12;
    return true;
  });
  const Exploration found = stepper.explore();
  EXPECT_TRUE(found.good()) << found.failure;
  EXPECT_TRUE(stale_seen);
}

TEST(StepperTest, ReadModifyWritesAreAtomicAtEveryOrder) {
  Stepper stepper;
  Word count;
  for (int thread = 0; thread < 3; ++thread) {
    stepper.add_thread([&, thread] {
      if (thread == 0) {
        fetch_add_relaxed(count, 1);
      } else if (thread == 1) {
        fetch_add_acq_rel(count, 1);
      } else {
        std::uint64_t found = load_relaxed(count);
        while (!compare_exchange_acq_rel(count, found, found + 1)) {
        }
      }
      return 0u;
    });
  }
  stepper.set_final_check([&](const Stepper::Results&) { return load_relaxed(count) == 3; });
  const Exploration found = stepper.explore();
  EXPECT_TRUE(found.good()) << found.failure;
}

TEST(StepperTest, AThreadSeesItsOwnStores) {
  Stepper stepper;
  SteppedAtomic<std::uint32_t> word;
  stepper.add_thread([&] {
    store_relaxed(word, 1u);
    fetch_sub_relaxed(word, 2u);
    Stepper::require(load_relaxed(word) == 0xffffffffu, "its own stores, at the word's width");
    return 0u;
  });
  stepper.add_thread([&] { return load_relaxed(word); });
  const Exploration found = stepper.explore();
  EXPECT_TRUE(found.good()) << found.failure;
}

TEST(StepperTest, ALostWakeUpIsFound) {
  Stepper stepper;
  Faithful::Word32 word;
  stepper.add_thread([&] {
    Faithful::wait(word, 0, kFutexAll, Deadline::never());
    return 0u;
  });
  stepper.add_thread([&] {
    Faithful::wake(word, kFutexAll);  // without changing the word
    return 0u;
  });
  const Exploration found = stepper.explore();
  EXPECT_NE(found.failure.find("thread 0 in futex-wait"), std::string::npos) << found.failure;
}

TEST(StepperTest, AWakeReachesOnlyItsBits) {
  Stepper stepper;
  Faithful::Word32 word;
  stepper.add_thread([&] {
    Faithful::wait(word, 0, 0b01, Deadline::never());
    return 0u;
  });
  stepper.add_thread([&] {
    Faithful::wake(word, 0b10);
    return 0u;
  });
  EXPECT_FALSE(stepper.explore().good());
}

TEST(StepperTest, AMutexExcludesAndOrders) {
  Stepper stepper;
  SteppedMutex mutex;
  Word count;
  for (int thread = 0; thread < 3; ++thread) {
    stepper.add_thread([&] {
      mutex.lock();
      store_relaxed(count, load_relaxed(count) + 1);
      mutex.unlock();
      return 0u;
    });
  }
  stepper.set_final_check([&](const Stepper::Results&) { return load_relaxed(count) == 3; });
  const Exploration found = stepper.explore();
  EXPECT_TRUE(found.good()) << found.failure;
}

TEST(StepperTest, SchedulesAreCounted) {
  Stepper stepper;
  Word x;
  for (int thread = 0; thread < 2; ++thread) {
    stepper.add_thread([&] {
      for (int i = 0; i < 3; ++i) fetch_add_seq_cst(x, 1);
      return 0u;
    });
  }
  const Exploration found = stepper.explore();
  EXPECT_TRUE(found.good()) << found.failure;
  EXPECT_EQ(found.schedules, 20);  // 6 over 3
}

}  // namespace
}  // namespace rankcast::base::stepping
