// PROTOCOL P3, host waiters, all schedules: no completion is missed.
#include <gtest/gtest.h>

#include <array>

#include "base/host_waiters.h"
#include "base/stepping_atomic.h"
#include "base/stepping_report.h"
#include "base/timeline.h"

namespace rankcast::base::stepping {
namespace {

constexpr const char* kLost = "for ever waiting";

using Weak32 = SteppedAtomics<Weakening::seq_cst_to_acq_rel, Weakening::none>;
using Weak64 = SteppedAtomics<Weakening::none, Weakening::seq_cst_to_acq_rel>;

// Each waiter waits for the timelines of all ranks; each rank completes one run.
template <class WaiterAtomics, class TimelineAtomics>
Exploration complete(std::size_t waiters, std::size_t ranks, Deadline deadline = Deadline()) {
  Stepper stepper;
  BasicHostWaiters<WaiterAtomics> host;
  std::array<BasicTimeline<TimelineAtomics>, 2> timelines;
  const TimelineValue wanted = TimelineValue::make(1, 1);
  for (std::size_t waiter = 0; waiter < waiters; ++waiter) {
    stepper.add_thread([&, ranks] {
      const WaitResult result = host.wait(
          [&] {
            for (std::size_t rank = 0; rank < ranks; ++rank) {
              if (!timelines[rank].reached(wanted)) return false;
            }
            return true;
          },
          SpinPolicy::none(), deadline);
      return static_cast<std::uint64_t>(result);
    });
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    stepper.add_thread([&, rank] {
      timelines[rank].advance(wanted);
      return static_cast<std::uint64_t>(host.notify());
    });
  }
  stepper.set_final_check([&](const Stepper::Results& results) {
    const bool all_ready = results[0] == static_cast<std::uint64_t>(WaitResult::ready);
    return host.count() == 0 && (all_ready || !deadline.is_never());
  });
  return stepper.explore();
}

TEST(HostWaitersSteppingTest, OneWaiterOneRank) { expect_good(complete<Faithful, Faithful>(1, 1)); }

TEST(HostWaitersSteppingTest, OneWaiterTwoRanks) {
  expect_good(complete<Faithful, Faithful>(1, 2));
}

TEST(HostWaitersSteppingTest, TwoWaitersOneRank) {
  expect_good(complete<Faithful, Faithful>(2, 1));
}

TEST(HostWaitersSteppingTest, DeadlineAtAnyMoment) {
  expect_good(complete<Faithful, Faithful>(1, 1, Deadline::at(1)));
  expect_good(complete<Faithful, Faithful>(1, 2, Deadline::at(1)));
}

TEST(HostWaitersSteppingTest, MutantCounterNotSeqCst) {
  expect_found(complete<Weak32, Faithful>(1, 1), kLost);
}

TEST(HostWaitersSteppingTest, MutantTimelineNotSeqCst) {
  expect_found(complete<Faithful, Weak64>(1, 1), kLost);
}

// What a single bit instead of a counter would do: the first waiter to leave clears it for the
// other.
TEST(HostWaitersSteppingTest, MutantBitInsteadOfCounter) {
  Stepper stepper;
  Faithful::Word32 bit;
  Faithful::Word32 bell;
  std::array<BasicTimeline<Faithful>, 2> timelines;
  const TimelineValue wanted = TimelineValue::make(1, 1);
  for (std::size_t waiter = 0; waiter < 2; ++waiter) {
    stepper.add_thread([&, waiter] {
      fetch_or_seq_cst(bit, 1u);
      for (;;) {
        const std::uint32_t heard = load_seq_cst(bell);
        if (timelines[waiter].reached(wanted)) break;
        Faithful::wait(bell, heard, kFutexAll, Deadline::never());
      }
      fetch_and_seq_cst(bit, 0u);
      return 0u;
    });
  }
  stepper.add_thread([&] {
    for (auto& timeline : timelines) {
      timeline.advance(wanted);
      if (load_seq_cst(bit) == 0) continue;
      fetch_add_seq_cst(bell, 1u);
      Faithful::wake(bell, kFutexAll);
    }
    return 0u;
  });
  expect_found(stepper.explore(), kLost);
}

}  // namespace
}  // namespace rankcast::base::stepping
