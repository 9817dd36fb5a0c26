// PROTOCOL P7, all schedules: the members of a group and a cancel come to one decision, and nobody
// sleeps through it.
#include <gtest/gtest.h>

#include "base/doorbell.h"
#include "base/group_vote.h"
#include "base/stepping_atomic.h"
#include "base/stepping_report.h"

namespace rankcast::base::stepping {
namespace {

constexpr const char* kLost = "for ever waiting";

enum class Decider { as_it_should, wakes_nobody };

// Two members, and whoever cancels.
Exploration vote(bool cancels, Decider decider = Decider::as_it_should) {
  Stepper stepper;
  BasicGroupVote<Faithful> vote;
  BasicDoorbell<Faithful> doorbell;
  for (int rank = 0; rank < 2; ++rank) {
    stepper.add_thread([&, rank, decider] {
      GroupDecision decision = vote.arrive({}, 2);
      if (decision == GroupDecision::undecided) {
        doorbell.wait_inside_frame(
            rank,
            [&] {
              decision = vote.decision();
              return decision != GroupDecision::undecided;
            },
            SpinPolicy::none(), Deadline::never());
      } else if (decider == Decider::as_it_should) {
        doorbell.ring_waiting(RankSet::first(2));
      }
      return static_cast<std::uint64_t>(decision);
    });
  }
  if (cancels) {
    stepper.add_thread([&] {
      const GroupDecision decision = vote.decide_to_skip();
      doorbell.ring_everyone();
      return static_cast<std::uint64_t>(decision);
    });
  }
  stepper.set_final_check([cancels](const Stepper::Results& results) {
    return results[0] != 0 && results[0] == results[1] && (!cancels || results[0] == results[2]);
  });
  return stepper.explore();
}

TEST(GroupVoteSteppingTest, TwoMembersComeToOneDecision) { expect_good(vote(false)); }

TEST(GroupVoteSteppingTest, TwoMembersAndACancelComeToOneDecision) { expect_good(vote(true)); }

TEST(GroupVoteSteppingTest, MutantDeciderWakesNobody) {
  expect_found(vote(false, Decider::wakes_nobody), kLost);
}

}  // namespace
}  // namespace rankcast::base::stepping
