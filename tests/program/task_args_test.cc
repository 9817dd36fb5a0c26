// TaskArgs: order, growth, moves, memory used again, and no use beyond its submit.
#include "program/task_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "program/fake_mesh.h"
#include "support/expect_error.h"

namespace rankcast::program {
namespace {

using detail::OrchestratorImpl;
using test::expect_error;

class TaskArgsTest : public ::testing::Test {
 protected:
  /// The slots that one task with these arguments names, in order.
  std::vector<std::uint32_t> slots_of(const std::function<void(TaskArgs&, const Arguments&)>& fill,
                                      std::vector<Argument> arguments) {
    run(
        [&](Orchestrator& orch, const Arguments& args) {
          TaskArgs task;
          fill(task, args);
          orch.submit("fake.any", 0, task);
        },
        std::move(arguments));
    std::vector<std::uint32_t> slots;
    for (const frame::ArgumentRecord& argument : impl_.draft().lane(0).arguments)
      slots.push_back(argument.slot);
    return slots;
  }
  void run(Program::Function function, std::vector<Argument> arguments = {}) {
    impl_.run(Program("test", std::move(function)), arguments, 1);
  }

  FakeMesh mesh_{2};
  OrchestratorImpl impl_{mesh_.view()};
};

TEST_F(TaskArgsTest, KeepsTheOrderOfAllKinds) {
  const DeviceTensor a = mesh_.tensor(0);
  const DeviceTensor b = mesh_.tensor(0);
  const DeviceTensor c = mesh_.tensor(0);
  const auto slots = slots_of(
      [&](TaskArgs& task, const Arguments& args) {
        task.in(c).scalar(1).out(args[0]).inout(b).scalar(2).no_dep(args[0]).in(c);
        EXPECT_EQ(task.tensor_count(), 5u);
      },
      {a});
  EXPECT_EQ(slots, (std::vector<std::uint32_t>{c.buffer().slot, a.buffer().slot, b.buffer().slot,
                                               a.buffer().slot, c.buffer().slot}));
  EXPECT_EQ(impl_.draft().lane(0).scalars.size(), 2u);
}

TEST_F(TaskArgsTest, GrowsAndKeepsWhatItHas) {
  std::vector<Argument> arguments;
  std::vector<std::uint32_t> expected;
  for (int i = 0; i < 1000; ++i) {
    const DeviceTensor tensor = mesh_.tensor(0);
    arguments.emplace_back(tensor);
    expected.push_back(tensor.buffer().slot);
  }
  EXPECT_EQ(slots_of(
                [](TaskArgs& task, const Arguments& args) {
                  for (std::size_t i = 0; i < args.size(); ++i) task.in(args[i]);
                },
                arguments),
            expected);
}

TEST_F(TaskArgsTest, MovesWithAllThatIsInIt) {
  const DeviceTensor a = mesh_.tensor(0);
  const DeviceTensor b = mesh_.tensor(0);
  run(
      [&](Orchestrator& orch, const Arguments& args) {
        TaskArgs first;
        first.in(args[0]).in(b).scalar(7);
        TaskArgs second(std::move(first));
        EXPECT_EQ(first.tensor_count(),
                  0u);  // NOLINT(bugprone-use-after-move): that is what is tested
        EXPECT_EQ(second.tensor_count(), 2u);
        first.out(b).scalar(8).scalar(
            9);  // one that was moved from is empty, and can be filled again
        EXPECT_EQ(first.tensor_count(), 1u);
        TaskArgs third;
        third.in(b);
        third = std::move(second);
        EXPECT_EQ(third.tensor_count(), 2u);
        orch.submit("fake.any", 0, third);
        orch.submit("fake.any", 0, first);
      },
      {a});
  const frame::FrameDraft& lane = impl_.draft().lane(0);
  ASSERT_EQ(lane.arguments.size(), 3u);
  EXPECT_EQ(lane.arguments[0].slot, a.buffer().slot);
  EXPECT_EQ(lane.arguments[1].slot, b.buffer().slot);
  EXPECT_EQ(lane.arguments[2].slot, b.buffer().slot);
  EXPECT_EQ(lane.tasks[0].scalars.count, 1u);
  EXPECT_EQ(lane.tasks[1].scalars.count, 2u);
}

TEST_F(TaskArgsTest, ANewOneIsEmptyWhateverTheLastOneHeld) {
  const DeviceTensor a = mesh_.tensor(0);
  for (int round = 0; round < 3; ++round) {
    run([&](Orchestrator& orch, const Arguments&) {
      for (int i = 0; i < 3; ++i) {
        TaskArgs task;
        EXPECT_EQ(task.tensor_count(), 0u);
        orch.submit("fake.any", 0, task.in(a).scalar(i));
      }
    });
    const frame::FrameDraft& lane = impl_.draft().lane(0);
    EXPECT_EQ(lane.arguments.size(), 3u);
    EXPECT_EQ(lane.scalars.size(), 3u);
  }
}

TEST_F(TaskArgsTest, CanBeSubmittedTwice) {
  const StackedDeviceTensor stack = mesh_.stack({0, 1});
  run(
      [](Orchestrator& orch, const Arguments& args) {
        TaskArgs task;
        task.in(args[0].shard_on(0)).scalar(1);
        orch.submit("fake.any", 0, task);
        orch.submit("fake.any", 0, task.in(args[0].shard_on(0)));
      },
      {stack});
  EXPECT_EQ(impl_.draft().lane(0).arguments.size(), 3u);
}

TEST_F(TaskArgsTest, MemoryIsUsedAgain) {
  const DeviceTensor a = mesh_.tensor(0);
  const auto round = [&] {
    run(
        [&](Orchestrator& orch, const Arguments& args) {
          TaskArgs one;
          TaskArgs two;
          for (int i = 0; i < 200; ++i) {
            one.in(args[0]);
            two.in(a).scalar(i);
          }
          orch.submit("fake.any", 0, one);
          orch.submit("fake.any", 0, two);
        },
        {a});
  };
  for (int i = 0; i < 3; ++i) round();
  const std::uint64_t growths = base::scratch_growths;
  for (int i = 0; i < 10; ++i) round();
  EXPECT_EQ(base::scratch_growths, growths);
}

TEST_F(TaskArgsTest, ReferencesAreRefusedBeyondTheirSubmit) {
  const DeviceTensor a = mesh_.tensor(0);
  const DeviceTensor b = mesh_.tensor(0);
  TaskArgs stash;
  run([&](Orchestrator&, const Arguments& args) { stash = std::move(TaskArgs{}.in(args[0])); },
      {a});
  const auto use = [&](Orchestrator& orch, const Arguments&) { orch.submit("fake.any", 0, stash); };
  // The argument at its place is another one now, and as live: it is not what was meant.
  expect_error(ErrorCode::invalid_argument, {"argument 0", "another submit"},
               [&] { run(use, {b}); });
  expect_error(ErrorCode::invalid_argument, {"argument 0", "another submit"}, [&] { run(use); });
  OrchestratorImpl other(mesh_.view());
  expect_error(ErrorCode::invalid_argument, {"another submit"},
               [&] { other.run(Program("other", use), std::vector<Argument>{b}, 1); });
}

// The reference of an outer submit is good while that runs, but to no other.
TEST_F(TaskArgsTest, AReferenceIsRefusedInsideAnotherMeshesSubmit) {
  FakeMesh other_mesh(4, 2);
  OrchestratorImpl other(other_mesh.view());
  const DeviceTensor inner = other_mesh.tensor(0);
  int refused = 0;
  run(
      [&](Orchestrator&, const Arguments& outer) {
        const Program nested("nested", [&](Orchestrator& orch, const Arguments& args) {
          orch.submit("fake.any", 0, TaskArgs{}.in(args[0]).out(outer[0]));
        });
        expect_error(ErrorCode::invalid_argument, {"argument 1", "another submit"},
                     [&] { other.run(nested, std::vector<Argument>{inner}, 1); });
        ++refused;
      },
      {mesh_.tensor(0)});
  EXPECT_EQ(refused, 1);
}

TEST_F(TaskArgsTest, AReferenceThatWasKeptIsRefusedInTheNextSubmit) {
  std::optional<ArgumentRef> kept;
  const DeviceTensor a = mesh_.tensor(0);
  run([&](Orchestrator&, const Arguments& args) { kept = args[0]; }, {a});
  expect_error(ErrorCode::invalid_argument, {"argument 0", "another submit"}, [&] {
    run([&](Orchestrator& orch,
            const Arguments&) { orch.submit("fake.any", 0, TaskArgs{}.in(*kept)); },
        {a});
  });
}

// What it pointed to is gone: the table of arguments has grown in between.
TEST_F(TaskArgsTest, AReferenceThatWasKeptIsRefusedWhenItsSubmitsTableIsGone) {
  std::optional<ArgumentRef> kept;
  const DeviceTensor a = mesh_.tensor(0);
  run([&](Orchestrator&, const Arguments& args) { kept = args[0]; }, {a});
  const std::optional<Error> error = test::error_of([&] {
    run([&](Orchestrator& orch,
            const Arguments&) { orch.submit("fake.any", 0, TaskArgs{}.in(*kept)); },
        std::vector<Argument>(10'000, a));
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error->what(), ::testing::HasSubstr("argument 0 (a reference) of task 0"));
  EXPECT_THAT(error->what(), ::testing::HasSubstr("another submit"));
}

// Destroyed after all that the thread keeps between submits.
thread_local std::optional<TaskArgs> outlives_its_thread;

TEST_F(TaskArgsTest, OneMayOutliveWhatItsThreadKeeps) {
  std::thread([] {
    outlives_its_thread.reset();  // made before what the thread keeps, so destroyed after it
    for (int round = 0; round < 2; ++round) {
      TaskArgs one;
      TaskArgs two;
      outlives_its_thread.emplace().scalar(1);
    }
  }).join();
}

TEST_F(TaskArgsTest, WhatTheProgramHoldsOutlivesASubmit) {
  const DeviceTensor a = mesh_.tensor(0);
  TaskArgs stash;
  stash.in(a).scalar(3);
  for (int round = 0; round < 3; ++round) {
    run([&](Orchestrator& orch, const Arguments&) { orch.submit("fake.any", 0, stash); });
    EXPECT_EQ(impl_.draft().lane(0).arguments[0].slot, a.buffer().slot);
    EXPECT_EQ(impl_.draft().lane(0).scalars[0].bits, 3u);
  }
}

}  // namespace
}  // namespace rankcast::program
