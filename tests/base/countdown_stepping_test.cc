// The countdown with host waiters, all schedules: the last lane's wake suffices, and a late count
// of a finished run does not disturb the next.
#include <gtest/gtest.h>

#include <array>

#include "base/countdown.h"
#include "base/doorbell.h"
#include "base/host_waiters.h"
#include "base/stepping_atomic.h"
#include "base/stepping_report.h"
#include "base/timeline.h"

namespace rankcast::base::stepping {
namespace {

constexpr const char* kLost = "for ever waiting";

using Weak64 = SteppedAtomics<Weakening::none, Weakening::seq_cst_to_acq_rel>;

enum class Lane { as_it_should, counts_before_it_advances };

template <class Atomics>
struct Shared {
  BasicHostWaiters<Faithful> host;
  BasicCountdown<Atomics> lanes_left;
  std::array<BasicTimeline<Atomics>, 2> timelines;

  void finish(std::size_t lane, std::uint64_t run, Lane order = Lane::as_it_should) {
    const TimelineValue end = TimelineValue::make(run, 1);
    if (order == Lane::as_it_should) timelines[lane].advance(end);
    const bool last = lanes_left.count_down(run);
    if (last) host.notify();
    if (order == Lane::counts_before_it_advances) timelines[lane].advance(end);
  }
  void wait(std::uint64_t run, std::size_t lanes) {
    const TimelineValue end = TimelineValue::make(run, 1);
    const auto ready = [&] {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        if (!timelines[lane].reached(end)) return false;
      }
      return true;
    };
    host.wait(ready, SpinPolicy::none(), Deadline::never());
  }
};

template <class Atomics>
Exploration one_run(Lane order) {
  Stepper stepper;
  Shared<Atomics> shared;
  shared.lanes_left.arm(1, 2);
  stepper.add_thread([&] {
    shared.wait(1, 2);
    return 0u;
  });
  for (std::size_t lane = 0; lane < 2; ++lane) {
    stepper.add_thread([&, lane, order] {
      shared.finish(lane, 1, order);
      return 0u;
    });
  }
  return stepper.explore();
}

TEST(CountdownSteppingTest, LastLaneWakes) { expect_good(one_run<Faithful>(Lane::as_it_should)); }

TEST(CountdownSteppingTest, MutantNotSeqCst) {
  expect_found(one_run<Weak64>(Lane::as_it_should), kLost);
}

TEST(CountdownSteppingTest, MutantCountsBeforeItAdvances) {
  expect_found(one_run<Faithful>(Lane::counts_before_it_advances), kLost);
}

// Run 1 uses both lanes, run 2 lane 0 alone. The host arms the word anew as soon as the timelines
// allow it, so lane 1 may count for run 1 after that.
TEST(CountdownSteppingTest, LateCountFallsOnNothing) {
  Stepper stepper;
  Shared<Faithful> shared;
  BasicDoorbell<Faithful> doorbell;
  Faithful::Word64 tail;
  shared.lanes_left.arm(1, 2);
  stepper.add_thread([&] {
    shared.wait(1, 2);
    shared.lanes_left.arm(2, 1);
    store_seq_cst(tail, 1);
    doorbell.ring_asleep(RankSet::of(0));
    shared.wait(2, 1);
    return 0u;
  });
  stepper.add_thread([&] {
    shared.finish(0, 1);
    doorbell.wait_asleep(
        0, [&] { return load_seq_cst(tail) == 1; }, SpinPolicy::none(), Deadline::never());
    shared.finish(0, 2);
    return 0u;
  });
  stepper.add_thread([&] {
    shared.finish(1, 1);
    return 0u;
  });
  stepper.set_final_check([&](const Stepper::Results&) { return shared.host.count() == 0; });
  expect_good(stepper.explore());
}

}  // namespace
}  // namespace rankcast::base::stepping
