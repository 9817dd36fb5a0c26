#include "base/futex.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <thread>

#include "base/native_atomics.h"

namespace rankcast::base {
namespace {

constexpr std::int64_t kHangLimitNs = 120'000'000'000;

TEST(FutexTest, ChangedWordDoesNotSleep) {
  const std::atomic<std::uint32_t> word{1};
  EXPECT_EQ(futex_wait(word, 0, kFutexAll, Deadline::never()), FutexResult::changed);
}

TEST(FutexTest, DeadlineEndsTheWait) {
  const std::atomic<std::uint32_t> word{0};
  EXPECT_EQ(futex_wait(word, 0, kFutexAll, Deadline::at(-5)), FutexResult::timed_out);
  const Deadline soon = Deadline::after(2'000'000);
  FutexResult result = FutexResult::woken;
  while (result == FutexResult::woken) result = futex_wait(word, 0, kFutexAll, soon);
  EXPECT_EQ(result, FutexResult::timed_out);
  EXPECT_TRUE(soon.passed());
}

TEST(FutexTest, WakeWithoutSleepersWakesNobody) {
  const std::atomic<std::uint32_t> word{0};
  EXPECT_EQ(futex_wake(word, kFutexAll), 0);
}

TEST(FutexTest, NativeAtomicsPassItOn) {
  NativeAtomics::Word32 word{1};
  EXPECT_EQ(NativeAtomics::wait(word, 0, kFutexAll, Deadline::never()), FutexResult::changed);
  EXPECT_EQ(NativeAtomics::wait(word, 1, kFutexAll, Deadline::at(0)), FutexResult::timed_out);
  EXPECT_EQ(NativeAtomics::wake(word, kFutexAll), 0);
}

// Calls wake until it has woken `count` sleepers.
bool wakes(const std::atomic<std::uint32_t>& word, std::uint32_t bitset, int count) {
  const Deadline limit = Deadline::after(kHangLimitNs);
  int woken = 0;
  while (woken < count && !limit.passed()) {
    woken += futex_wake(word, bitset);
    std::this_thread::yield();
  }
  return woken == count;
}

TEST(FutexTest, WakesOnlyMatchingBits) {
  const std::atomic<std::uint32_t> word{0};
  FutexResult first = FutexResult::changed;
  FutexResult second = FutexResult::changed;
  std::thread sleeper([&] { first = futex_wait(word, 0, 0b01, Deadline::after(kHangLimitNs)); });
  std::thread other([&] { second = futex_wait(word, 0, 0b10, Deadline::after(kHangLimitNs)); });
  EXPECT_TRUE(wakes(word, 0b01, 1));
  sleeper.join();
  EXPECT_EQ(futex_wake(word, 0b100), 0);
  EXPECT_TRUE(wakes(word, 0b10, 1));
  other.join();
  EXPECT_EQ(first, FutexResult::woken);
  EXPECT_EQ(second, FutexResult::woken);
}

TEST(FutexTest, WakesAcrossProcesses) {
  void* shared = mmap(nullptr, sizeof(std::atomic<std::uint32_t>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* word = new (shared) std::atomic<std::uint32_t>{0};
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const FutexResult result = futex_wait(*word, 0, 0b1000, Deadline::after(kHangLimitNs));
    _exit(result == FutexResult::woken ? 0 : 1);
  }
  EXPECT_TRUE(wakes(*word, 0b1000, 1));
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  munmap(shared, sizeof(std::atomic<std::uint32_t>));
}

}  // namespace
}  // namespace rankcast::base
