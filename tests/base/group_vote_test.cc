#include "base/group_vote.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace rankcast::base {
namespace {

TEST(GroupVoteTest, TheLastToArriveDecides) {
  GroupVote vote;
  EXPECT_EQ(vote.arrive({}, 3), GroupDecision::undecided);
  EXPECT_EQ(vote.arrive({}, 3), GroupDecision::undecided);
  EXPECT_EQ(vote.decision(), GroupDecision::undecided);
  EXPECT_EQ(vote.arrive({}, 3), GroupDecision::go);
  EXPECT_EQ(vote.decision(), GroupDecision::go);
  EXPECT_EQ(vote.decide_to_skip(), GroupDecision::go) << "a decision stands";
  vote.clear();
  EXPECT_EQ(vote.decision(), GroupDecision::undecided);
}

TEST(GroupVoteTest, OneIsEnoughToSkipOrToPrepare) {
  for (int who = 0; who < 3; ++who) {
    GroupVote skip;
    GroupVote prepare;
    GroupVote both;
    for (int i = 0; i < 3; ++i) {
      skip.arrive({.good = i != who}, 3);
      prepare.arrive({.lacks = i == who}, 3);
      both.arrive({.good = i != who, .lacks = i == 0}, 3);
    }
    EXPECT_EQ(skip.decision(), GroupDecision::skip);
    EXPECT_EQ(prepare.decision(), GroupDecision::go_prepared);
    EXPECT_EQ(both.decision(), GroupDecision::skip);
  }
}

TEST(GroupVoteTest, OthersMayDecideToSkipBeforeTheLast) {
  GroupVote vote;
  EXPECT_EQ(vote.arrive({}, 2), GroupDecision::undecided);
  EXPECT_EQ(vote.decide_to_skip(), GroupDecision::skip);
  EXPECT_EQ(vote.arrive({}, 2), GroupDecision::skip);
  EXPECT_EQ(vote.decide_to_skip(), GroupDecision::skip);
}

// Whatever comes first, all see one decision.
TEST(GroupVoteTest, AllSeeTheSame) {
  for (int round = 0; round < 2000; ++round) {
    GroupVote vote;
    std::atomic<int> went{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        GroupDecision decision = vote.arrive({}, 3);
        while (decision == GroupDecision::undecided) decision = vote.decision();
        if (decision == GroupDecision::go) went.fetch_add(1);
      });
    }
    const GroupDecision stands = round % 2 == 0 ? vote.decide_to_skip() : GroupDecision::go;
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(went.load(), stands == GroupDecision::go ? 3 : 0);
  }
}

}  // namespace
}  // namespace rankcast::base
