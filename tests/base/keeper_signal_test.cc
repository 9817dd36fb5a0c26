#include "base/keeper_signal.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "base/mutex.h"
#include "base/timeline.h"

namespace rankcast::base {
namespace {

constexpr int kHangLimitMs = 120'000;

bool readable(int fd, int limit_ms) {
  pollfd waiting{fd, POLLIN, 0};
  return poll(&waiting, 1, limit_ms) == 1;
}

TEST(KeeperSignalTest, WritesOnlyWhenWantedOrFlagged) {
  KeeperWord word;
  KeeperSignal signal(word, EventFd::create().value());
  EXPECT_FALSE(signal.notify_if(false));
  EXPECT_FALSE(readable(signal.fd(), 0));
  EXPECT_TRUE(signal.notify_if(true));
  EXPECT_TRUE(readable(signal.fd(), 0));
  signal.drain();
  EXPECT_FALSE(readable(signal.fd(), 0));

  signal.want();
  EXPECT_TRUE(signal.wanted());
  EXPECT_TRUE(signal.notify_if(false));
  EXPECT_TRUE(readable(signal.fd(), 0));
  signal.drain();
  signal.clear();
  EXPECT_FALSE(signal.wanted());
  EXPECT_FALSE(signal.notify_if(false));
}

TEST(KeeperSignalTest, WantUnlessTellsWhatItFound) {
  KeeperWord word;
  KeeperSignal signal(word, EventFd::create().value());
  EXPECT_FALSE(signal.want_unless([&] {
    EXPECT_TRUE(signal.wanted());
    return false;
  }));
  EXPECT_TRUE(signal.want_unless([] { return true; }));
}

// A requester asks for the keeper at many runs while a rank retires them; the keeper must work each
// off.
TEST(KeeperSignalTest, EveryRequestIsWorkedOff) {
  constexpr std::uint64_t kRuns = 3'000;
  KeeperWord word;
  KeeperSignal signal(word, EventFd::create().value());
  Timeline timeline;
  Mutex mutex;
  std::uint64_t queued = 0;  // the run that a request waits for; 0: none
  std::atomic<std::uint64_t> worked_off{0};
  std::atomic<bool> hung{false};

  std::thread keeper([&] {
    while (worked_off < kRuns && !hung) {
      if (!readable(signal.fd(), kHangLimitMs)) {
        hung = true;
        return;
      }
      for (bool look = true; look;) {
        signal.drain();
        signal.clear();
        std::uint64_t pending = 0;
        {
          const MutexLock lock(mutex);
          if (queued != 0 && timeline.reached(TimelineValue::make(queued, 1))) {
            worked_off = queued;
            queued = 0;
          }
          pending = queued;
        }
        look = pending != 0 && signal.want_unless([&] {
          return timeline.reached(TimelineValue::make(pending, 1));
        });
      }
    }
  });
  std::thread rank([&] {
    for (std::uint64_t run = 1; run <= kRuns && !hung; ++run) {
      while (worked_off < run - 1 && !hung) std::this_thread::yield();
      timeline.advance(TimelineValue::make(run, 1));
      signal.notify_if(false);
    }
  });
  for (std::uint64_t run = 1; run <= kRuns && !hung; ++run) {
    {
      const MutexLock lock(mutex);
      queued = run;
    }
    const auto reached = [&] { return timeline.reached(TimelineValue::make(run, 1)); };
    if (signal.want_unless(reached)) signal.notify();
    while (worked_off < run && !hung) std::this_thread::yield();
  }
  rank.join();
  keeper.join();
  EXPECT_FALSE(hung);
  EXPECT_EQ(worked_off, kRuns);
}

}  // namespace
}  // namespace rankcast::base
