// A run that repeats the last one takes its tasks over; whatever differs, the draft is the one that
// an orchestration without a past would make.
// tests: src/program/reference_loops.h
// tests: src/program/task_memory.h
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "program/fake_mesh.h"
#include "program/orchestration.h"
#include "program/same_draft.h"
#include "support/expect_error.h"

namespace rankcast::program {
namespace {

using detail::OrchestratorImpl;
using test::error_of;

/// One task of a program under test: which arguments with which tags, which scalars.
struct PlannedTask {
  std::string kernel = {};
  int rank = 0;
  std::vector<std::pair<std::size_t, Tag>> arguments = {};
  std::vector<std::int64_t> scalars = {};
  const DeviceTensor* own = nullptr;
  std::vector<std::size_t> afters = {};  // how many tasks before this one
  int source = 0;                        // of a copy: from argument 2 there to argument 0 here
};

void submit_all(Orchestrator& orch, const Arguments& args, const std::vector<PlannedTask>& plan) {
  std::vector<Task> tasks;
  for (const PlannedTask& task : plan) {
    TaskArgs task_args;
    for (const std::size_t before : task.afters) {
      if (before < tasks.size()) task_args.after(tasks[tasks.size() - 1 - before]);
    }
    if (task.kernel == "copy") {
      task_args.out(args[0].shard_on(task.rank)).in(args[2].shard_on(task.source));
      tasks.push_back(orch.copy(task_args));
      continue;
    }
    for (const auto& [argument, tag] : task.arguments) {
      const ArgumentRef shard = args[argument].shard_on(task.rank);
      if (tag == Tag::in) task_args.in(shard);
      if (tag == Tag::out) task_args.out(shard);
      if (tag == Tag::inout) task_args.inout(shard);
      if (tag == Tag::no_dep) task_args.no_dep(shard);
    }
    if (task.own != nullptr) task_args.in(*task.own);
    for (const std::int64_t value : task.scalars) task_args.scalar(value);
    tasks.push_back(orch.submit(task.kernel, task.rank, task_args));
    EXPECT_EQ(tasks.back().index(), tasks.size() - 1);
  }
}

class RepetitionTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  /// Runs the plan on the orchestration with a past and on a fresh one.
  void run_and_compare(const std::vector<PlannedTask>& plan, const std::vector<Argument>& arguments,
                       std::uint64_t epoch) {
    const Program program(
        "plan", [&](Orchestrator& orch, const Arguments& args) { submit_all(orch, args, plan); });
    OrchestratorImpl fresh(mesh_.view());
    const auto refusal = [&](OrchestratorImpl& impl) -> std::string {
      try {
        impl.run(program, arguments, epoch);
      } catch (const Error& error) {
        return error.what();
      }
      return {};
    };
    const std::string refused = refusal(fresh);
    ASSERT_EQ(refusal(impl_), refused);
    if (refused.empty()) expect_same_draft(impl_.draft(), fresh.draft());
    every_visit_ = fresh.table_visits();
  }

  StackedDeviceTensor stack(Shape tail = {4}) { return mesh_.stack({0, 1, 2}, tail); }

  FakeMesh mesh_{kRanks};
  OrchestratorImpl impl_{mesh_.view()};
  std::uint64_t every_visit_ = 0;  // what a run without a past looks at
};

std::vector<PlannedTask> plan_of_three() {
  return {{"fake.any", 0, {{0, Tag::in}, {1, Tag::out}}, {}},
          {"fake.any", 1, {{0, Tag::in}, {1, Tag::out}}, {7}},
          {"fake.any", 2, {{0, Tag::in}, {1, Tag::inout}}, {}}};
}

TEST_F(RepetitionTest, TheSameTasksLookAtNoTable) {
  const std::vector<Argument> arguments{stack(), stack()};
  run_and_compare(plan_of_three(), arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 6u);
  EXPECT_EQ(impl_.descriptors_built(), 6u);
  run_and_compare(plan_of_three(), arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 0u);
  EXPECT_EQ(impl_.descriptors_built(), 0u);
  EXPECT_EQ(every_visit_, 6u);
}

TEST_F(RepetitionTest, AnotherEpochChecksEveryHandleAndEncodesNone) {
  const std::vector<Argument> arguments{stack(), stack()};
  run_and_compare(plan_of_three(), arguments, 1);
  run_and_compare(plan_of_three(), arguments, 2);
  EXPECT_EQ(impl_.table_visits(), 6u);
  EXPECT_EQ(impl_.descriptors_built(), 0u);
  run_and_compare(plan_of_three(), arguments, 2);
  EXPECT_EQ(impl_.table_visits(), 0u);
}

TEST_F(RepetitionTest, AnotherEpochFindsWhatWasFreed) {
  const std::vector<Argument> arguments{stack(), mesh_.tensor(1)};
  const Program program("two", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("fake.any", 0, TaskArgs{}.in(args[0].shard_on(0)));
    orch.submit("fake.any", 1, TaskArgs{}.in(args[0].shard_on(1)).out(args[1]));
  });
  impl_.run(program, arguments, 1);
  mesh_.free(*std::get_if<DeviceTensor>(&arguments[1].value()));
  for (int tries = 0; tries < 2; ++tries) {
    const auto error = error_of([&] { impl_.run(program, arguments, 2); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::stale_tensor);
    EXPECT_EQ(error->rank(), 1);
    EXPECT_EQ(error->argument(), 1);
  }
}

TEST_F(RepetitionTest, ATensorOfAnotherLayoutChecksEverything) {
  std::vector<Argument> arguments{stack(), stack()};
  run_and_compare(plan_of_three(), arguments, 1);
  arguments[1] = stack({5});
  run_and_compare(plan_of_three(), arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 6u);
  run_and_compare(plan_of_three(), arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 0u);
}

TEST_F(RepetitionTest, ATensorOfTheSameLayoutTakesTheOthersPlace) {
  std::vector<Argument> arguments{stack(), stack()};
  run_and_compare(plan_of_three(), arguments, 1);
  arguments[1] = stack();
  run_and_compare(plan_of_three(), arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 3u) << "its shards alone";
  EXPECT_EQ(impl_.descriptors_built(), 3u);
  run_and_compare(plan_of_three(), arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 0u);
  std::swap(arguments[0], arguments[1]);
  run_and_compare(plan_of_three(), arguments, 1);
  EXPECT_EQ(impl_.descriptors_built(), 6u);
}

TEST_F(RepetitionTest, AStaleTensorInTheOthersPlaceIsRefusedByName) {
  std::vector<Argument> arguments{mesh_.tensor(0), mesh_.tensor(0)};
  const Program program("two", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("fake.any", 0, TaskArgs{}.in(args[0]).out(args[1]));
  });
  impl_.run(program, arguments, 1);
  const DeviceTensor freed = mesh_.tensor(0);
  mesh_.free(freed);
  arguments[1] = freed;
  const auto error = error_of([&] { impl_.run(program, arguments, 1); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::stale_tensor);
  EXPECT_EQ(error->argument(), 1);
}

TEST_F(RepetitionTest, ATensorOfAnotherRankInTheOthersPlaceIsRefusedByName) {
  std::vector<Argument> arguments{mesh_.tensor(0)};
  const Program program("one", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("fake.any", 0, TaskArgs{}.out(args[0]));
  });
  impl_.run(program, arguments, 1);
  arguments[0] = mesh_.tensor(2);
  const auto error = error_of([&] { impl_.run(program, arguments, 1); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::wrong_rank);
  EXPECT_EQ(error->rank(), 0);
}

TEST_F(RepetitionTest, OtherScalarsAreAskedOfTheKernelAlone) {
  const std::vector<Argument> arguments{stack()};
  const int before = FakeCatalog::checks.load();
  for (int step = 0; step < 4; ++step) {
    run_and_compare({{"fake.checked", 0, {{0, Tag::in}}, {step}}}, arguments, 1);
    EXPECT_EQ(impl_.descriptors_built(), step == 0 ? 1u : 0u);
  }
  // Four times here, and four times in orchestrations without a past.
  EXPECT_EQ(FakeCatalog::checks.load(), before + 8);
}

TEST_F(RepetitionTest, TheFirstDifferentTaskEndsIt) {
  const std::vector<Argument> arguments{stack(), stack()};
  run_and_compare(plan_of_three(), arguments, 1);
  std::vector<PlannedTask> other = plan_of_three();
  other[1].scalars = {8};
  run_and_compare(other, arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 0u) << "other scalars look at no table";
  other[1].arguments[1].second = Tag::inout;
  run_and_compare(other, arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 4u) << "the first task of three is taken over";
  other.pop_back();
  run_and_compare(other, arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 0u) << "fewer tasks than last time";
  run_and_compare(plan_of_three(), arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 4u);
}

TEST_F(RepetitionTest, AThrowingFunctionIsForgotten) {
  const std::vector<Argument> arguments{stack(), stack()};
  run_and_compare(plan_of_three(), arguments, 1);
  const Program thrower("thrower", [&](Orchestrator& orch, const Arguments& args) {
    submit_all(orch, args, {plan_of_three()[0]});
    throw std::runtime_error("no more");
  });
  EXPECT_THROW(impl_.run(thrower, arguments, 1), std::runtime_error);
  run_and_compare(plan_of_three(), arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 6u);
}

TEST_F(RepetitionTest, ATensorOfTheProgramIsComparedToo) {
  const DeviceTensor first = mesh_.tensor(0);
  const DeviceTensor second = mesh_.tensor(0);
  const std::vector<Argument> arguments{stack()};
  std::vector<PlannedTask> plan{{"fake.any", 0, {{0, Tag::in}}, {}, &first}};
  run_and_compare(plan, arguments, 1);
  run_and_compare(plan, arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 0u);
  plan[0].own = &second;
  run_and_compare(plan, arguments, 1);
  EXPECT_EQ(impl_.table_visits(), 1u);
  EXPECT_EQ(impl_.descriptors_built(), 1u);
  run_and_compare(plan, arguments, 2);
  EXPECT_EQ(impl_.table_visits(), 2u);
  const DeviceTensor longer = mesh_.tensor(0, {9});
  plan[0].own = &longer;
  run_and_compare(plan, arguments, 2);
  EXPECT_EQ(impl_.descriptors_built(), 2u);
}

TEST_F(RepetitionTest, ArgumentsThatWereKeptRepeatToo) {
  const DeviceTensor tensor = mesh_.tensor(0);
  TaskArgs kept;
  kept.in(tensor).scalar(3);
  const Program program(
      "kept", [&](Orchestrator& orch, const Arguments&) { orch.submit("fake.any", 0, kept); });
  impl_.run(program, {}, 1);
  impl_.run(program, {}, 1);
  EXPECT_EQ(impl_.table_visits(), 0u);
}

TEST_F(RepetitionTest, NewLayoutsDoNotPileUp) {
  const std::vector<Argument> arguments{stack()};
  for (std::int64_t round = 1; round <= 50; ++round) {
    const DeviceTensor own = mesh_.tensor(0, {round});
    run_and_compare({{"fake.any", 0, {{0, Tag::in}}, {}}, {"fake.any", 0, {}, {}, &own}}, arguments,
                    1);
    EXPECT_LE(impl_.draft().layouts.size(), 3u) << "round " << round;
  }
}

// Random runs, each made of the last by a few changes: arguments, tasks, epochs, more and fewer.
TEST_F(RepetitionTest, RandomChangesGiveTheDraftOfAFreshOrchestration) {
  std::mt19937 random(20261130);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<DeviceTensor> own{mesh_.tensor(0), mesh_.tensor(0), mesh_.tensor(0, {5})};
  const auto random_task = [&] {
    PlannedTask task;
    task.kernel = "fake.any";
    if (below(4) == 0) task.own = &own[below(own.size())];
    task.rank = static_cast<int>(below(kRanks));
    if (task.own != nullptr) task.rank = 0;
    for (std::size_t i = below(4); i-- > 0;) {
      task.arguments.emplace_back(below(4), static_cast<Tag>(1 + below(4)));
    }
    for (std::size_t i = below(3); i-- > 0;) task.scalars.push_back(static_cast<int>(below(3)));
    for (std::size_t i = below(2); i-- > 0;) task.afters.push_back(below(3));
    if (below(4) == 0) {
      task = {.kernel = "copy", .rank = task.rank, .afters = task.afters};
      task.source = static_cast<int>(below(kRanks));
    }
    return task;
  };
  std::vector<Argument> arguments{stack(), stack({2, 3}), stack(), stack({5})};
  std::vector<PlannedTask> plan;
  std::uint64_t epoch = 1;
  for (int round = 0; round < 2000 && !HasFailure(); ++round) {
    switch (below(8)) {
      case 0:
        arguments[below(4)] = stack({static_cast<std::int64_t>(1 + below(3))});
        break;
      case 1:
        ++epoch;
        std::swap(arguments[below(4)], arguments[below(4)]);
        break;
      case 2:
        if (!plan.empty()) plan[below(plan.size())] = random_task();
        break;
      case 3:
        if (!plan.empty()) plan.pop_back();
        break;
      case 4:
        if (plan.size() < 12)
          plan.insert(plan.begin() + static_cast<int>(below(plan.size() + 1)), random_task());
        break;
      case 5:
        if (plan.size() < 12) plan.push_back(random_task());
        break;
      default:
        break;
    }
    run_and_compare(plan, arguments, epoch);
  }
}

}  // namespace
}  // namespace rankcast::program
