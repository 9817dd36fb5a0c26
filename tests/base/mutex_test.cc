#include "base/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace rankcast::base {
namespace {

struct Counter {
  Mutex mutex;
  int count RC_GUARDED_BY(mutex) = 0;

  void add_locked() RC_REQUIRES(mutex) { ++count; }
  void add() RC_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    add_locked();
  }
};

TEST(MutexTest, Excludes) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) counter.add();
    });
  }
  for (auto& thread : threads) thread.join();
  const MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.count, 20'000);
}

TEST(MutexTest, LockCanBeGivenUpAndTakenAgain) {
  Counter counter;
  MutexLock lock(counter.mutex);
  counter.add_locked();
  lock.unlock();
  counter.add();
  lock.lock();
  counter.add_locked();
  EXPECT_EQ(counter.count, 3);
}

TEST(MutexTest, TryLockFailsWhileHeld) {
  Mutex mutex;
  bool taken = true;
  mutex.lock();
  std::thread other([&] {
    taken = mutex.try_lock();
    if (taken) mutex.unlock();
  });
  other.join();
  mutex.unlock();
  EXPECT_FALSE(taken);
  ASSERT_TRUE(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace rankcast::base
