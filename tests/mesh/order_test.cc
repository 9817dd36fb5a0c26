// In which order the tasks of a program run, on one rank and between ranks, within a run and
// between runs in flight; and what a failure keeps from running.
//
// tests: src/mesh/run_order.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class MeshOrderOnEachLink : public OnEachLink {
 protected:
  static constexpr int kRanks = 8;

  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-7";
    options.link = GetParam();
    options.max_in_flight = 4;
    return Mesh::open(options);
  }

  Mesh mesh_ = open();
};

TEST_P(MeshOrderOnEachLink, AChainOverEveryRank) {
  const StackedDeviceTensor hops = mesh_.alloc_stacked({kRanks, 4}, DType::f32);
  const StackedDeviceTensor sums = mesh_.alloc_stacked({kRanks, 4}, DType::f32);
  const Program chain("chain", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("rankcast.fill", 0, TaskArgs{}.out(args[1].shard_on(0)).scalar(1));
    for (int rank = 1; rank < orch.world_size(); ++rank) {
      orch.copy(args[0].shard_on(rank), args[1].shard_on(rank - 1));
      orch.submit("rankcast.sum", rank,
                  TaskArgs{}
                      .in(args[0].shard_on(rank))
                      .in(args[0].shard_on(rank))
                      .out(args[1].shard_on(rank)));
    }
  });
  for (int round = 0; round < 50; ++round) {
    mesh_.submit(chain, {hops, sums}).wait();
    const std::vector<float> values = values_of(mesh_, sums);
    for (int rank = 0; rank < kRanks; ++rank)
      ASSERT_EQ(values[static_cast<std::size_t>(rank) * 4], static_cast<float>(1 << rank));
  }
}

// Two stacks take turns, so that each stage reads what the one before wrote on another rank.
TEST_P(MeshOrderOnEachLink, AButterflySumsOverAllRanks) {
  const StackedDeviceTensor values = mesh_.alloc_stacked({kRanks, 1}, DType::f32);
  const StackedDeviceTensor others = mesh_.alloc_stacked({kRanks, 1}, DType::f32);
  const StackedDeviceTensor sums = mesh_.alloc_stacked({kRanks, 1}, DType::f32);
  const Program butterfly("butterfly", [](Orchestrator& orch, const Arguments& args) {
    for (int stage = 0; stage < 3; ++stage) {
      for (int rank = 0; rank < orch.world_size(); ++rank)
        orch.copy(args[1].shard_on(rank), args[0].shard_on(rank ^ (1 << stage)));
      for (int rank = 0; rank < orch.world_size(); ++rank) {
        orch.submit("rankcast.sum", rank,
                    TaskArgs{}
                        .in(args[0].shard_on(rank))
                        .in(args[1].shard_on(rank))
                        .out(args[2].shard_on(rank)));
        orch.copy(args[0].shard_on(rank), args[2].shard_on(rank));
      }
    }
  });
  for (int round = 0; round < 50; ++round) {
    const std::vector<float> start = counting<float>(kRanks, static_cast<float>(round));
    mesh_.upload(values, HostView(start.data(), {kRanks, 1}));
    mesh_.submit(butterfly, {values, others, sums}).wait();
    EXPECT_THAT(values_of(mesh_, values), Each(static_cast<float>(28 + 8 * round)));
  }
}

// Each run overwrites what the copies of the run before read, with nobody waiting in between.
TEST_P(MeshOrderOnEachLink, RunsInFlightKeepTheOrderOfCopiesAndWrites) {
  constexpr std::int64_t kWide = 20'000;
  const DeviceTensor source = mesh_.alloc(0, {kWide}, DType::f32);
  std::vector<DeviceTensor> kept;
  constexpr int kRuns = 30;
  kept.reserve(kRuns);
  for (int i = 0; i < kRuns; ++i) kept.push_back(mesh_.alloc(1 + i % 7, {kWide}, DType::f32));
  std::vector<rankcast::Run> runs;
  for (int i = 0; i < kRuns; ++i) {
    runs.push_back(mesh_.submit(Program("write",
                                        [i](Orchestrator& orch, const Arguments& args) {
                                          orch.submit("rankcast.fill", 0,
                                                      TaskArgs{}.out(args[0]).scalar(i));
                                        }),
                                {source}));
    runs.push_back(mesh_.submit(
        Program("copy",
                [](Orchestrator& orch, const Arguments& args) { orch.copy(args[1], args[0]); }),
        {source, kept[static_cast<std::size_t>(i)]}));
  }
  for (const rankcast::Run& run : runs) run.wait();
  for (int i = 0; i < kRuns; ++i) {
    EXPECT_THAT(values_of(mesh_, kept[static_cast<std::size_t>(i)]), Each(static_cast<float>(i)));
  }
}

TEST_P(MeshOrderOnEachLink, AnUploadComesAfterTheCopiesThatReadTheTensor) {
  constexpr std::int64_t kWide = 20'000;
  const DeviceTensor source = mesh_.alloc(2, {kWide}, DType::f32);
  const DeviceTensor target = mesh_.alloc(5, {kWide}, DType::f32);
  const Program copy(
      "copy", [](Orchestrator& orch, const Arguments& args) { orch.copy(args[1], args[0]); });
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> now(kWide, static_cast<float>(i));
    const std::vector<float> next(kWide, -1);
    mesh_.upload(source, HostView(now.data(), {kWide}));
    const rankcast::Run run = mesh_.submit(copy, {source, target});
    mesh_.upload(source, HostView(next.data(), {kWide}));
    run.wait();
    ASSERT_THAT(values_of(mesh_, target), Each(static_cast<float>(i)));
  }
}

TEST_P(MeshOrderOnEachLink, CopiesAreCheckedLikeTasks) {
  const DeviceTensor on_zero = mesh_.alloc(0, {4}, DType::f32);
  const DeviceTensor on_one = mesh_.alloc(1, {4}, DType::f32);
  const DeviceTensor five = mesh_.alloc(1, {5}, DType::f32);
  const DeviceTensor ints = mesh_.alloc(1, {4}, DType::i32);
  const DeviceTensor gone = mesh_.alloc(1, {4}, DType::f32);
  mesh_.free(gone);
  const auto submit = [&](const DeviceTensor& to, const DeviceTensor& from) {
    mesh_.submit(Program("copy", [](Orchestrator& orch,
                                    const Arguments& args) { orch.copy(args[0], args[1]); }),
                 {to, from});
  };
  expect_error(ErrorCode::invalid_argument, {"task 0 ('copy')", "rank 0", "f32[4]", "f32[5]"},
               [&] { submit(on_zero, five); });
  expect_error(ErrorCode::invalid_argument, {"f32[4]", "i32[4]"}, [&] { submit(on_zero, ints); });
  expect_error(ErrorCode::stale_tensor, {"argument 1", "('copy')", "rank 0"},
               [&] { submit(on_zero, gone); });
  expect_error(ErrorCode::stale_tensor, {"argument 0", "('copy')", "rank 1"},
               [&] { submit(gone, on_zero); });
  expect_error(ErrorCode::invalid_argument, {"argument 1", "shares bytes with argument 0"},
               [&] { submit(on_one, on_one); });
  expect_error(ErrorCode::invalid_argument, {"3 tensors", "a copy has its destination"}, [&] {
    mesh_.submit(Program("copy",
                         [](Orchestrator& orch, const Arguments& args) {
                           orch.copy(TaskArgs{}.out(args[0]).in(args[1]).in(args[1]));
                         }),
                 {on_zero, on_one});
  });
  submit(on_zero, on_one);
}

TEST_P(MeshOrderOnEachLink, ATaskOfAnotherSubmitCannotBeWaitedFor) {
  std::optional<Task> old;
  const DeviceTensor tensor = mesh_.alloc(0, {4}, DType::f32);
  mesh_
      .submit(Program("keep",
                      [&](Orchestrator& orch, const Arguments& args) {
                        old = orch.submit("rankcast.fill", 0, TaskArgs{}.out(args[0]).scalar(1));
                      }),
              {tensor})
      .wait();
  expect_error(ErrorCode::invalid_argument, {"task 0 ('rankcast.fill')", "another submit"}, [&] {
    mesh_.submit(Program("late",
                         [&](Orchestrator& orch, const Arguments& args) {
                           orch.submit("rankcast.fill", 0,
                                       TaskArgs{}.out(args[0]).scalar(1).after(*old));
                         }),
                 {tensor});
  });
}

INSTANTIATE_TEST_SUITE_P(Links, MeshOrderOnEachLink, all_links(), name_of_link);

class MeshOrder : public ::testing::Test {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-3";
    options.max_in_flight = 4;
    return Mesh::open(options);
  }

  MeshOrder() {
    mesh_.register_kernel("test.fail", [](const KernelCall&) { throw std::runtime_error("no"); });
    mesh_.register_kernel("test.note", [this](const KernelCall& call) {
      const std::lock_guard lock(mutex_);
      noted_.push_back(call.scalars[0].value.i64);
    });
  }

  std::mutex mutex_;
  std::vector<std::int64_t> noted_;
  Mesh mesh_ = open();
};

TEST_F(MeshOrder, AfterHoldsBetweenRanks) {
  const auto gate = add_gate(mesh_);
  const OpenAtEnd open_at_end(gate);
  const rankcast::Run run = mesh_.submit(
      Program("after",
              [](Orchestrator& orch, const Arguments&) {
                const Task held = orch.submit("test.gate", 3, TaskArgs{});
                const Task first = orch.submit("test.note", 0, TaskArgs{}.scalar(1).after(held));
                const Task second = orch.submit("test.note", 2, TaskArgs{}.scalar(2).after(first));
                orch.submit("test.note", 1, TaskArgs{}.scalar(3).after(second));
                orch.submit("test.note", 0, TaskArgs{}.scalar(4).after(second));
              }),
      {});
  gate->wait_entered(1);
  {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(noted_.empty());
  }
  gate->open();
  run.wait();
  ASSERT_EQ(noted_.size(), 4u);
  EXPECT_EQ(noted_[0], 1);
  EXPECT_EQ(noted_[1], 2);
}

TEST_F(MeshOrder, ADiamondWhoseMiddleFails) {
  std::vector<DeviceTensor> tensors;
  for (int i = 0; i < 4; ++i) tensors.push_back(mesh_.alloc(i, {1}, DType::f32));
  // 0 -> (1 fails, 2) -> 3, and a task beside it.
  const Program diamond("diamond", [](Orchestrator& orch, const Arguments&) {
    const Task top = orch.submit("test.note", 0, TaskArgs{}.scalar(0));
    const Task left = orch.submit("test.fail", 1, TaskArgs{}.after(top));
    const Task right = orch.submit("test.note", 2, TaskArgs{}.scalar(2).after(top));
    const Task bottom = orch.submit("test.note", 3, TaskArgs{}.scalar(3).after(left).after(right));
    orch.submit("test.note", 0, TaskArgs{}.scalar(4).after(bottom));
    orch.submit("test.note", 3, TaskArgs{}.scalar(5).after(right));
  });
  const rankcast::Run run = mesh_.submit(diamond, {});
  for (int i = 0; i < 3; ++i) {
    expect_error(ErrorCode::task_failed, {"run ", "task 1 ('test.fail') on rank 1", "no"},
                 [&] { run.wait(); });
  }
  std::ranges::sort(noted_);
  EXPECT_THAT(noted_, ElementsAre(0, 2, 5)) << "what needed the failed task never ran";
}

TEST_F(MeshOrder, PoisonGoesThroughCopies) {
  const auto count = add_counter(mesh_);
  const DeviceTensor made = mesh_.alloc(0, {1}, DType::f32);
  const DeviceTensor got = mesh_.alloc(1, {1}, DType::f32);
  const DeviceTensor apart = mesh_.alloc(1, {1}, DType::f32);
  const rankcast::Run run =
      mesh_.submit(Program("through",
                           [](Orchestrator& orch, const Arguments& args) {
                             orch.submit("test.fail", 0, TaskArgs{}.out(args[0]));
                             orch.copy(args[1], args[0]);
                             orch.submit("test.count", 1, TaskArgs{}.in(args[1]));
                             orch.submit("rankcast.fill", 1, TaskArgs{}.out(args[2]).scalar(7));
                             orch.submit("rankcast.fill", 1, TaskArgs{}.out(args[1]).scalar(8));
                             orch.submit("test.count", 1, TaskArgs{}.in(args[1]));
                           }),
                   {made, got, apart});
  expect_error(ErrorCode::task_failed, {"task 0"}, [&] { run.wait(); });
  EXPECT_EQ(count->load(), 1) << "the reader of what was written anew";
  EXPECT_THAT(values_of(mesh_, apart), ElementsAre(7));
  EXPECT_THAT(values_of(mesh_, got), ElementsAre(8));
}

// The writer on rank 0 is poisoned at once, but the copy that still reads is let finish first.
TEST_F(MeshOrder, APoisonedTaskStillWaitsForWhatComesBeforeIt) {
  const auto gate = add_gate(mesh_);
  const OpenAtEnd open_at_end(gate);
  constexpr std::int64_t kWide = 1 << 16;
  const DeviceTensor source = mesh_.alloc(0, {kWide}, DType::f32);
  const DeviceTensor target = mesh_.alloc(1, {kWide}, DType::f32);
  const std::vector<float> ones(kWide, 1);
  mesh_.upload(source, HostView(ones.data(), {kWide}));
  const rankcast::Run run = mesh_.submit(
      Program("late",
              [](Orchestrator& orch, const Arguments& args) {
                const Task failing = orch.submit("test.fail", 0, TaskArgs{});
                orch.submit("test.gate", 1, TaskArgs{});
                orch.copy(args[1], args[0]);
                orch.submit("rankcast.fill", 0, TaskArgs{}.out(args[0]).scalar(2).after(failing));
                orch.submit("rankcast.fill", 0, TaskArgs{}.out(args[0]).scalar(3));
              }),
      {source, target});
  gate->wait_entered(1);
  gate->open();
  expect_error(ErrorCode::task_failed, {"task 0"}, [&] { run.wait(); });
  EXPECT_THAT(values_of(mesh_, target), Each(1.f));
  EXPECT_THAT(values_of(mesh_, source), Each(3.f));
}

}  // namespace
}  // namespace rankcast::test
