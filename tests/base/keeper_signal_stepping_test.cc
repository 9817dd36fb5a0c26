// PROTOCOL P11, all schedules: the keeper is told of every completion that somebody asked for, and
// of no other.
#include <gtest/gtest.h>

#include "base/keeper_signal.h"
#include "base/stepping_atomic.h"
#include "base/stepping_report.h"
#include "base/timeline.h"

namespace rankcast::base::stepping {
namespace {

constexpr const char* kLost = "for ever waiting";

using Weak32 = SteppedAtomics<Weakening::seq_cst_to_acq_rel, Weakening::none>;
using Weak64 = SteppedAtomics<Weakening::none, Weakening::seq_cst_to_acq_rel>;

enum class Keeper { as_it_should, clears_after_it_looked };
enum class Requester { as_it_should, does_not_look_again };

// A requester queues one request (a deferred free) for a timeline that the rank is about to reach.
// The keeper ends when it has worked it off.
template <class WordAtomics, class TimelineAtomics>
Exploration request(Keeper keeper = Keeper::as_it_should,
                    Requester requester = Requester::as_it_should) {
  Stepper stepper;
  SteppedAtomic<std::uint32_t> readable(
      1);  // an earlier notification has the keeper up at any moment
  BasicKeeperWord<WordAtomics> word;
  BasicKeeperSignal<WordAtomics> signal(word, SteppedEvent(readable));
  const SteppedEvent event(readable);
  BasicTimeline<TimelineAtomics> timeline;
  SteppedMutex mutex;
  Faithful::Word32 queued;
  const TimelineValue wanted = TimelineValue::make(1, 1);
  const auto reached = [&] { return timeline.reached(wanted); };

  stepper.add_thread([&, requester] {
    mutex.lock();
    store_relaxed(queued, 1u);
    mutex.unlock();
    if (requester == Requester::does_not_look_again) {
      signal.want();
    } else if (signal.want_unless(reached)) {
      signal.notify();
    }
    return 0u;
  });
  stepper.add_thread([&] {
    timeline.advance(wanted);
    return static_cast<std::uint64_t>(signal.notify_if(false));
  });
  stepper.add_thread([&, keeper] {
    for (;;) {
      event.poll();
      bool look = true;
      while (look) {
        signal.drain();
        if (keeper == Keeper::as_it_should) signal.clear();
        mutex.lock();
        const bool pending = load_relaxed(queued) != 0;
        mutex.unlock();
        if (pending && reached()) return 1u;
        look = pending && signal.want_unless(reached);
        if (keeper == Keeper::clears_after_it_looked) signal.clear();
      }
    }
  });
  return stepper.explore();
}

TEST(KeeperSignalSteppingTest, RequestAgainstCompletion) {
  expect_good(request<Faithful, Faithful>());
}

TEST(KeeperSignalSteppingTest, MutantWantedNotSeqCst) {
  expect_found(request<Weak32, Faithful>(), kLost);
}

TEST(KeeperSignalSteppingTest, MutantTimelineNotSeqCst) {
  expect_found(request<Faithful, Weak64>(), kLost);
}

TEST(KeeperSignalSteppingTest, MutantKeeperClearsAfterItLooked) {
  expect_found(request<Faithful, Faithful>(Keeper::clears_after_it_looked), kLost);
}

TEST(KeeperSignalSteppingTest, MutantRequesterDoesNotLookAgain) {
  expect_found(request<Faithful, Faithful>(Keeper::as_it_should, Requester::does_not_look_again),
               kLost);
}

// A healthy dispatch makes no system call: nobody asks, and no rank writes the eventfd.
TEST(KeeperSignalSteppingTest, NobodyAsksNobodyIsTold) {
  Stepper stepper;
  SteppedAtomic<std::uint32_t> readable;
  BasicKeeperWord<Faithful> word;
  BasicKeeperSignal<Faithful> signal(word, SteppedEvent(readable));
  BasicTimeline<Faithful> timeline;
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    stepper.add_thread([&, rank] {
      if (rank == 0) timeline.advance(TimelineValue::make(1, 1));
      return static_cast<std::uint64_t>(signal.notify_if(false));
    });
  }
  stepper.set_final_check([&](const Stepper::Results& results) {
    return results[0] == 0 && results[1] == 0 && load_relaxed(readable) == 0;
  });
  expect_good(stepper.explore());
}

}  // namespace
}  // namespace rankcast::base::stepping
