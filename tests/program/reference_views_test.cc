// Views of references: what they name, that equal ones repeat, and that others are encoded anew.
#include "program/reference_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/scratch.h"
#include "program/fake_mesh.h"
#include "program/orchestration.h"
#include "program/same_draft.h"
#include "support/expect_error.h"
#include "support/seed.h"

namespace rankcast::program {
namespace {

using detail::OrchestratorImpl;
using test::error_of;
using test::expect_error;

class ReferenceViewsTest : public ::testing::Test {
 protected:
  /// Runs the function on the orchestration with a past and on a fresh one.
  void run_and_compare(const Program::Function& function, const std::vector<Argument>& arguments,
                       std::uint64_t epoch = 1) {
    const Program program("views", function);
    impl_.run(program, arguments, epoch);
    OrchestratorImpl fresh(mesh_.view());
    fresh.run(program, arguments, epoch);
    expect_same_draft(impl_.draft(), fresh.draft());
  }
  StackedDeviceTensor stack(const Shape& tail = {6, 4}) { return mesh_.stack({0, 1, 2}, tail); }
  const frame::ArgumentRecord& record(std::size_t i, int rank = 0) const {
    return impl_.draft().lane(rank).arguments[i];
  }

  FakeMesh mesh_{3};
  OrchestratorImpl impl_{mesh_.view()};
};

/// One task on rank 0 over rows [begin, end) of the first argument.
Program::Function rows(std::int64_t begin, std::int64_t end) {
  return [begin, end](Orchestrator& orch, const Arguments& args) {
    orch.submit("fake.any", 0,
                TaskArgs{}.in(args[0].shard_on(0).slice(0, begin, end)).out(args[1]));
  };
}

TEST_F(ReferenceViewsTest, AViewAnswersForItselfAndNamesItsArgument) {
  const DeviceTensor tensor = mesh_.tensor(0, {6, 4}).slice(1, 1, 4);
  run_and_compare(
      [](Orchestrator& orch, const Arguments& args) {
        const ArgumentRef view = args[1].slice(0, 2, 6, 2).transpose(0, 1);
        EXPECT_EQ(view.shape(), (Shape{3, 2}));
        EXPECT_EQ(view.rank(), 0);
        EXPECT_EQ(view.dtype(), DType::f32);
        EXPECT_EQ(view.shard_count(), 1);
        const ArgumentRef shard = args[0].shard_on(0).strided({2}, {5}, 3);
        EXPECT_EQ(shard.shape(), Shape{2});
        EXPECT_EQ(args[0][2].slice(0, 0, 1).rank(), 2);
        orch.submit("fake.any", 0, TaskArgs{}.in(view).in(args[1]).out(shard));
      },
      {stack(), tensor});
  EXPECT_EQ(record(0).offset, (1U + 2 * 4) * 4);
  EXPECT_EQ(record(0).argument, 1U);
  EXPECT_EQ(record(0).slot, record(1).slot);
  const frame::LayoutRecord& layout = impl_.draft().layouts[record(0).layout];
  EXPECT_EQ(tensor::describe(layout), "f32[3, 2] strides [1, 8]");
  EXPECT_EQ(record(1).offset, 4U);
  EXPECT_EQ(record(2).offset, 12U);
  EXPECT_EQ(record(2).argument, 0U);
  EXPECT_EQ(record(2).tag, Tag::out);
}

TEST_F(ReferenceViewsTest, WhatHasNoViewsRefusesThem) {
  std::optional<ArgumentRef> kept;
  const std::vector<Argument> arguments{stack(), 42, mesh_.tensor(0, {6, 4})};
  const auto refused = [](std::initializer_list<std::string> words, auto call) {
    expect_error(ErrorCode::invalid_argument, words, call);
  };
  run_and_compare(
      [&](Orchestrator&, const Arguments& args) {
        refused({"slice", "whole stack of 3 shards", "shard_on"}, [&] { args[0].slice(0, 0, 1); });
        refused({"transpose", "whole stack"}, [&] { args[0].transpose(0, 1); });
        refused({"strided", "whole stack"}, [&] { args[0].strided({1}, {1}); });
        refused({"scalar"}, [&] { args[1].slice(0, 0, 1); });
        refused({"slice", "0 to 7", "end <= 6"}, [&] { args[2].slice(0, 0, 7); });
        refused({"no dimension 2"}, [&] { args[2].transpose(0, 2); });
        refused({"strided", "24 elements"}, [&] { args[2].strided({25}, {1}); });
        refused({"device tensor"}, [&] { args[2].slice(0, 0, 1).shard_on(0); });
        refused({"none to choose from"}, [&] { args[2].slice(0, 0, 1)[0]; });
        kept = args[2].slice(0, 0, 2);
      },
      arguments);
  refused({"slice", "another submit"}, [&] { kept->slice(0, 0, 1); });
  const Program later("later", [&](Orchestrator& orch, const Arguments& args) {
    args[2].slice(0, 1, 2);  // takes the number of the one that was kept
    refused({"slice", "another submit"}, [&] { kept->slice(0, 0, 1); });
    orch.submit("fake.any", 0, TaskArgs{}.in(*kept));
  });
  refused({"another submit"}, [&] { impl_.run(later, arguments, 1); });
}

TEST_F(ReferenceViewsTest, EqualViewsRepeat) {
  const std::vector<Argument> arguments{stack(), mesh_.tensor(0)};
  run_and_compare(rows(1, 3), arguments);
  EXPECT_EQ(impl_.descriptors_built(), 2U);
  const std::uint64_t growths = base::scratch_growths;
  for (int round = 0; round < 3; ++round) {
    impl_.run(Program("views", rows(1, 3)), arguments, 1);
    EXPECT_EQ(impl_.descriptors_built(), 0U);
    EXPECT_EQ(impl_.table_visits(), 0U);
  }
  EXPECT_EQ(base::scratch_growths, growths);
}

TEST_F(ReferenceViewsTest, OtherViewsAreEncodedAnew) {
  const std::vector<Argument> arguments{stack(), mesh_.tensor(0)};
  run_and_compare(rows(1, 3), arguments);
  run_and_compare(rows(2, 4), arguments);  // of the same layout
  EXPECT_EQ(impl_.descriptors_built(), 2U);
  EXPECT_EQ(record(0).offset, 2U * 4 * 4);
  run_and_compare(rows(2, 4), arguments);
  EXPECT_EQ(impl_.descriptors_built(), 0U);
  run_and_compare(rows(2, 5), arguments);
  EXPECT_EQ(impl_.descriptors_built(), 2U);
  // The whole argument in the place of a view of it, and back.
  const auto whole = [](Orchestrator& orch, const Arguments& args) {
    orch.submit("fake.any", 0, TaskArgs{}.in(args[0].shard_on(0)).out(args[1]));
  };
  run_and_compare(whole, arguments);
  EXPECT_EQ(impl_.descriptors_built(), 2U);
  run_and_compare(rows(2, 5), arguments);
  EXPECT_EQ(impl_.descriptors_built(), 2U);
}

TEST_F(ReferenceViewsTest, ATaskWhoseViewsAreEqualRepeatsBesideOneWhoseViewsAreNot) {
  const std::vector<Argument> arguments{mesh_.tensor(0, {8})};
  std::int64_t at = 0;
  const auto function = [&at](Orchestrator& orch, const Arguments& args) {
    orch.submit("fake.any", 0, TaskArgs{}.in(args[0].slice(0, 0, 2)));
    orch.submit("fake.any", 0, TaskArgs{}.out(args[0].slice(0, at, at + 1)));
  };
  run_and_compare(function, arguments);
  at = 3;
  run_and_compare(function, arguments);
  EXPECT_EQ(impl_.descriptors_built(), 1U);
}

TEST_F(ReferenceViewsTest, AnotherTensorOfTheSameLayoutTakesTheOthersPlace) {
  std::vector<Argument> arguments{stack(), mesh_.tensor(0)};
  run_and_compare(rows(1, 3), arguments);
  arguments[0] = stack();
  run_and_compare(rows(1, 3), arguments);
  EXPECT_EQ(impl_.descriptors_built(), 1U);
  EXPECT_EQ(impl_.table_visits(), 1U);
  // A view as an argument: elsewhere in its buffer, and the view of it with it.
  const DeviceTensor whole = mesh_.tensor(0, {12, 4});
  const auto first = [](Orchestrator& orch, const Arguments& args) {
    orch.submit("fake.any", 0, TaskArgs{}.in(args[0].slice(0, 1, 2)));
  };
  run_and_compare(first, {whole.slice(0, 0, 6)});
  run_and_compare(first, {whole.slice(0, 6, 12)});
  EXPECT_EQ(impl_.descriptors_built(), 1U);
  EXPECT_EQ(record(0).offset, 7U * 4 * 4);
}

TEST_F(ReferenceViewsTest, AnotherEpochChecksTheHandlesOfViews) {
  const DeviceTensor tensor = mesh_.tensor(0, {6});
  const auto function = [](Orchestrator& orch, const Arguments& args) {
    orch.submit("fake.any", 0, TaskArgs{}.in(args[0].slice(0, 1, 2)).in(args[0].slice(0, 3, 4)));
  };
  run_and_compare(function, {tensor}, 1);
  run_and_compare(function, {tensor}, 2);
  EXPECT_EQ(impl_.descriptors_built(), 0U);
  EXPECT_EQ(impl_.table_visits(), 2U);
  mesh_.free(tensor);
  const auto error = error_of([&] { run_and_compare(function, {tensor}, 3); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::stale_tensor);
  EXPECT_THAT(error->what(),
              ::testing::HasSubstr("argument 0 (a view of argument 0 of the submit)"));
}

TEST_F(ReferenceViewsTest, AViewOfAnotherRanksShardIsRefused) {
  const auto error = error_of([&] {
    run_and_compare(
        [](Orchestrator& orch, const Arguments& args) {
          orch.submit("fake.any", 1, TaskArgs{}.in(args[0][0].slice(0, 0, 1)));
        },
        {stack()});
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::wrong_rank);
  EXPECT_EQ(error->rank(), 1);
}

TEST_F(ReferenceViewsTest, ManyViewsStayWhereTheyAre) {
  const std::vector<Argument> arguments{mesh_.tensor(0, {1000})};
  const auto function = [](Orchestrator& orch, const Arguments& args) {
    std::vector<ArgumentRef> views;
    for (int i = 0; i < 1000; ++i) views.push_back(args[0].slice(0, i, i + 1));
    TaskArgs task;
    for (const ArgumentRef& view : views) task.in(view);
    orch.submit("fake.any", 0, task);
  };
  run_and_compare(function, arguments);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(record(i).offset, i * 4);
}

// Random runs, each made of the last by a few changes of views, arguments and epoch.
TEST_F(ReferenceViewsTest, RandomChangesGiveTheDraftOfAFreshOrchestration) {
  std::mt19937_64 random(test::test_seed());
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  struct Planned {
    std::size_t argument;
    std::int64_t begin, end;
    bool turned, viewed;
  };
  const auto planned = [&] {
    Planned view{static_cast<std::size_t>(below(3)), below(5), 0, below(2) == 0, below(4) != 0};
    view.end = view.begin + 1 + below(6 - view.begin);
    return view;
  };
  std::vector<Planned> plan{planned(), planned(), planned()};
  std::vector<Argument> arguments{stack(), stack({6, 4}), stack({6, 2}), stack()};
  std::uint64_t epoch = 1;
  for (int round = 0; round < 2000 && !HasFailure(); ++round) {
    switch (below(8)) {
      case 0:
        plan[static_cast<std::size_t>(below(std::ssize(plan)))] = planned();
        break;
      case 1:
        if (plan.size() < 12) plan.push_back(planned());
        break;
      case 2:
        if (plan.size() > 1) plan.erase(plan.begin() + below(std::ssize(plan)));
        break;
      case 3:
        arguments[static_cast<std::size_t>(below(3))] = stack({6, 2 * (1 + below(2))});
        break;
      case 4:
        ++epoch;
        break;
      default:
        break;
    }
    run_and_compare(
        [&](Orchestrator& orch, const Arguments& args) {
          for (std::size_t i = 0; i < plan.size(); ++i) {
            const int rank = static_cast<int>(i % 3);
            const Planned& at = plan[i];
            ArgumentRef argument = args[at.argument].shard_on(rank);
            if (at.viewed) argument = argument.slice(0, at.begin, at.end);
            if (at.viewed && at.turned) argument = argument.transpose(0, 1);
            orch.submit("fake.any", rank, TaskArgs{}.in(argument).inout(args[3].shard_on(rank)));
          }
        },
        arguments, epoch);
  }
}

}  // namespace
}  // namespace rankcast::program
