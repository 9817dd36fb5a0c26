// tests: bench/lib/sum_job.cc
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "bench/lib/job.h"
#include "rankcast/error.h"

namespace rankcast::bench {
namespace {

constexpr std::size_t kElements = 16;

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// What the inputs of all ranks hold, kept by applying each round's preparation.
class Inputs {
 public:
  explicit Inputs(const Job& job) {
    for (std::size_t tensor = 0; tensor + 1 < job.tensors().size(); ++tensor) {
      std::vector<float>& stack = stacks_.emplace_back();
      for (int rank = 0; rank < job.ranks(); ++rank) {
        const std::vector<float> values = floats(job.initial(tensor, rank));
        stack.insert(stack.end(), values.begin(), values.end());
      }
    }
  }

  /// How many elements of each rank the preparation changes.
  std::vector<int> apply(const Rounds::Preparation& preparation) {
    std::vector<float>& stack = stacks_[preparation.changed_tensor];
    const std::vector<float> changed = floats(preparation.changed);
    std::vector<int> counts(stack.size() / kElements, 0);
    for (std::size_t i = 0; i < stack.size(); ++i) counts[i / kElements] += stack[i] != changed[i];
    stack = changed;
    return counts;
  }

  std::vector<float> sums() const {
    std::vector<float> sums(stacks_.front().size(), 0.0F);
    for (const std::vector<float>& stack : stacks_) {
      for (std::size_t i = 0; i < stack.size(); ++i) sums[i] += stack[i];
    }
    return sums;
  }

 private:
  std::vector<std::vector<float>> stacks_;
};

std::optional<Mismatch> check(const Rounds& rounds, const std::vector<float>& outputs, int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return rounds.check(std::as_bytes(std::span(outputs)), all);
}

TEST(SumJob, HasInputsAndOneOutputOf16Floats) {
  const std::unique_ptr<Job> job = make_sum_job(3, 142);
  EXPECT_EQ(job->ranks(), 3);
  ASSERT_EQ(job->tensors().size(), 142U);
  for (std::size_t i = 0; i < 142; ++i) {
    EXPECT_EQ(job->tensors()[i].tag, i < 141 ? Tag::in : Tag::out);
    EXPECT_EQ(job->tensors()[i].shape, Shape({16}));
    EXPECT_EQ(job->initial(i, 2).size(), 64U);
  }
}

TEST(SumJob, RefusesNoRanksAndNoInputs) {
  EXPECT_THROW(make_sum_job(0, 3), Error);
  EXPECT_THROW(make_sum_job(1, 1), Error);
}

TEST(SumRounds, EachRoundChangesOneElementOfOneInputOnEachRank) {
  const std::unique_ptr<Job> job = make_sum_job(4, 5);
  const std::unique_ptr<Rounds> rounds = job->rounds();
  Inputs inputs(*job);
  std::set<std::size_t> changed;
  for (int round = 0; round < 300; ++round) {
    const Rounds::Preparation preparation = rounds->next();
    changed.insert(preparation.changed_tensor);
    EXPECT_EQ(inputs.apply(preparation), std::vector<int>(4, 1)) << "round " << round;
  }
  EXPECT_EQ(changed.size(), 4U) << "every input changes sometimes";
}

TEST(SumRounds, TheTrueSumPassesInEveryRoundAndNoOtherDoes) {
  const std::unique_ptr<Job> job = make_sum_job(3, 7);
  const std::unique_ptr<Rounds> rounds = job->rounds();
  Inputs inputs(*job);
  std::vector<float> before = inputs.sums();
  for (int round = 0; round < 200; ++round) {
    const Rounds::Preparation preparation = rounds->next();
    inputs.apply(preparation);
    const std::vector<float> sums = inputs.sums();
    EXPECT_FALSE(check(*rounds, sums, 3));
    EXPECT_TRUE(check(*rounds, before, 3)) << "the last round's result was taken";
    EXPECT_TRUE(check(*rounds, floats(preparation.poison), 3)) << "an unwritten output was taken";
    before = sums;
  }
}

TEST(SumRounds, EveryElementOfEveryRankIsLookedAt) {
  const std::unique_ptr<Job> job = make_sum_job(2, 3);
  const std::unique_ptr<Rounds> rounds = job->rounds();
  Inputs inputs(*job);
  inputs.apply(rounds->next());
  const std::vector<float> sums = inputs.sums();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::vector<float> wrong = sums;
    wrong[i] += 1;
    const std::optional<Mismatch> mismatch = check(*rounds, wrong, 2);
    ASSERT_TRUE(mismatch);
    EXPECT_EQ(mismatch->rank, static_cast<int>(i / kElements));
    EXPECT_EQ(mismatch->element, static_cast<std::int64_t>(i % kElements));
    EXPECT_EQ(mismatch->found, std::to_string(static_cast<int>(wrong[i])));
    EXPECT_EQ(mismatch->expected, std::to_string(static_cast<int>(sums[i])));
  }
}

TEST(SumRounds, PoisonIsNoSumOfAnyRound) {
  const std::unique_ptr<Job> job = make_sum_job(2, 2);
  const std::unique_ptr<Rounds> rounds = job->rounds();
  Inputs inputs(*job);
  for (int round = 0; round < 500; ++round) {
    const Rounds::Preparation preparation = rounds->next();
    inputs.apply(preparation);
    const std::vector<float> poison = floats(preparation.poison);
    const std::vector<float> sums = inputs.sums();
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NE(poison[i], sums[i]);
  }
}

TEST(SumRounds, UncheckedRanksMayHoldAnything) {
  const std::unique_ptr<Job> job = make_sum_job(2, 3);
  const std::unique_ptr<Rounds> rounds = job->rounds();
  Inputs inputs(*job);
  inputs.apply(rounds->next());
  std::vector<float> sums = inputs.sums();
  sums[0] += 1;
  const std::vector<int> second{1};
  EXPECT_FALSE(rounds->check(std::as_bytes(std::span(sums)), second));
}

}  // namespace
}  // namespace rankcast::bench
