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
  threads.reserve(4);
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
  const auto can_be_taken = [&mutex] {
    bool taken = false;
    std::thread other([&] {
      if (!mutex.try_lock()) return;
      taken = true;
      mutex.unlock();
    });
    other.join();
    return taken;
  };
  mutex.lock();
  EXPECT_FALSE(can_be_taken());
  mutex.unlock();
  EXPECT_TRUE(can_be_taken());
}

}  // namespace
}  // namespace rankcast::base
