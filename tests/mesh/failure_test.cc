// What goes wrong in a run or in a submit: who hears of it, in which words, and what is not touched
// by it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MeshFailure : public ::testing::Test {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-3";
    options.max_in_flight = 4;
    return Mesh::open(options);
  }

  MeshFailure() {
    mesh_.register_kernel("test.fail",
                          [](const KernelCall&) { throw std::runtime_error("the answer is 42"); });
    mesh_.register_kernel("test.fail_at", [](const KernelCall& call) {
      throw Error(ErrorCode::invalid_argument, "too short",
                  {.argument = static_cast<int>(call.scalars[0].value.i64)});
    });
    mesh_.register_kernel("test.odd", [](const KernelCall&) { throw 7; });
  }

  /// A submit that is refused: nothing is published, no kernel runs, and the next one is good.
  std::optional<Error> expect_refused(ErrorCode code, std::initializer_list<std::string> words,
                                      Program::Function function,
                                      std::vector<Argument> arguments = {}) {
    const MeshStats before = mesh_.stats();
    const int launches = count_->load();
    const auto error =
        error_of([&] { mesh_.submit(Program("refused", std::move(function)), arguments); });
    if (error) {
      EXPECT_EQ(error_code_name(error->code()), error_code_name(code)) << error->what();
      for (const std::string& word : words) EXPECT_THAT(error->what(), HasSubstr(word));
    }
    EXPECT_EQ(mesh_.stats().submits, before.submits);
    EXPECT_EQ(mesh_.stats().bytes_written, before.bytes_written);
    mesh_.submit(launch_everywhere("test.count"), {}).wait();
    EXPECT_EQ(count_->load(), launches + 4);
    return error;
  }

  Mesh mesh_ = open();
  std::shared_ptr<std::atomic<int>> count_ = add_counter(mesh_);
};

TEST_F(MeshFailure, NamesRunTaskKernelRankAndReason) {
  const Program program("fails", [](Orchestrator& orch, const Arguments&) {
    orch.submit("test.count", 2, TaskArgs{});
    orch.submit("test.fail", 2, TaskArgs{});
  });
  const rankcast::Run run = mesh_.submit(program, {});
  const auto error = error_of([&] { run.wait(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::task_failed);
  EXPECT_EQ(error->rank(), 2);
  EXPECT_EQ(error->dispatch_id(), run.dispatch_id());
  for (const std::string& word :
       {"run " + std::to_string(run.dispatch_id()), std::string("task 1"),
        std::string("'test.fail'"), std::string("rank 2"), std::string("the answer is 42")}) {
    EXPECT_THAT(error->what(), HasSubstr(word));
  }
}

TEST_F(MeshFailure, TheErrorSticks) {
  const rankcast::Run run = mesh_.submit(launch_on("test.fail", {1}), {});
  const auto first = error_of([&] { run.wait(); });
  ASSERT_TRUE(first);
  EXPECT_TRUE(run.done());
  mesh_.submit(launch_everywhere("test.count"), {}).wait();
  for (int i = 0; i < 3; ++i) {
    const auto again = error_of(
        [&] { i == 1 ? static_cast<void>(run.wait_for(std::chrono::seconds(1))) : run.wait(); });
    ASSERT_TRUE(again);
    EXPECT_STREQ(again->what(), first->what());
    EXPECT_EQ(again->code(), first->code());
    EXPECT_EQ(again->rank(), first->rank());
  }
  EXPECT_EQ(run.report().ranks.size(), 1u) << "a failed run has a report";
}

TEST_F(MeshFailure, EveryWaiterHearsTheSame) {
  const auto gate = add_gate(mesh_);
  const OpenAtEnd open_at_end(gate);
  const Program program("fails", [](Orchestrator& orch, const Arguments&) {
    orch.submit("test.gate", 0, TaskArgs{});
    orch.submit("test.fail", 0, TaskArgs{});
  });
  const rankcast::Run run = mesh_.submit(program, {});
  std::mutex mutex;
  std::vector<std::string> heard;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto error = error_of([&] { run.wait(); });
      const std::lock_guard lock(mutex);
      heard.push_back(error ? error->what() : "nothing");
    });
  }
  gate->open();
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(heard.size(), 4u);
  for (const std::string& text : heard) EXPECT_EQ(text, heard.front());
  EXPECT_THAT(heard.front(), HasSubstr("the answer is 42"));
}

TEST_F(MeshFailure, WhatNeedsTheFailedTaskDoesNotRunButOthersDo) {
  const Program program("fails", [](Orchestrator& orch, const Arguments&) {
    orch.submit("test.count", 0, TaskArgs{});
    const Task failing = orch.submit("test.fail", 0, TaskArgs{});
    orch.submit("test.count", 0, TaskArgs{});
    for (int i = 0; i < 4; ++i) orch.submit("test.count", 0, TaskArgs{}.after(failing));
    for (int rank = 1; rank < 4; ++rank) orch.submit("test.count", rank, TaskArgs{});
    orch.submit("test.count", 3, TaskArgs{}.after(failing));
  });
  const rankcast::Run run = mesh_.submit(program, {});
  expect_error(ErrorCode::task_failed, {"task 1", "rank 0"}, [&] { run.wait(); });
  EXPECT_EQ(count_->load(), 2 + 3);
  mesh_.submit(launch_everywhere("test.count"), {}).wait();
  EXPECT_EQ(count_->load(), 2 + 3 + 4) << "the next run is a good one";
}

TEST_F(MeshFailure, RunsInFlightOnOtherRanksAreUntouched) {
  const auto gate = add_gate(mesh_);
  const OpenAtEnd open_at_end(gate);
  const rankcast::Run held = mesh_.submit(launch_on("test.gate", {3}), {});
  const rankcast::Run failing = mesh_.submit(launch_on("test.fail", {0, 1}), {});
  const rankcast::Run after = mesh_.submit(launch_on("test.count", {0, 1, 2}), {});
  expect_error(ErrorCode::task_failed, {"rank 0"}, [&] { failing.wait(); });
  after.wait();
  EXPECT_EQ(count_->load(), 3);
  EXPECT_FALSE(held.done());
  gate->open();
  held.wait();
}

TEST_F(MeshFailure, AFailureKeepsItsArgument) {
  const StackedDeviceTensor tensor = mesh_.alloc_stacked({4, 4}, DType::f32);
  for (const int argument : {0, 2, 9}) {
    const Program program("fails_at", [argument](Orchestrator& orch, const Arguments& args) {
      TaskArgs task;
      for (int i = 0; i < 3; ++i) task.in(args[0].shard_on(1));
      orch.submit("test.fail_at", 1, task.scalar(argument));
    });
    const auto error = error_of([&] { mesh_.submit(program, {tensor}).wait(); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::task_failed);
    EXPECT_THAT(error->what(), HasSubstr("too short"));
    EXPECT_EQ(error->argument(), argument < 3 ? std::optional<int>(argument) : std::nullopt);
  }
}

TEST_F(MeshFailure, WhateverAKernelThrows) {
  expect_error(ErrorCode::task_failed, {"'test.odd'", "rank 3"},
               [&] { mesh_.submit(launch_on("test.odd", {3}), {}).wait(); });
  mesh_.register_kernel(
      "test.long", [](const KernelCall&) { throw std::runtime_error(std::string(5000, 'x')); });
  const auto error = error_of([&] { mesh_.submit(launch_on("test.long", {0}), {}).wait(); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("xxxx"));
  mesh_.register_kernel("test.silent", [](const KernelCall&) { throw std::runtime_error(""); });
  expect_error(ErrorCode::task_failed, {"'test.silent'"},
               [&] { mesh_.submit(launch_on("test.silent", {0}), {}).wait(); });
}

TEST_F(MeshFailure, ADroppedRunIsLoggedOnce) {
  const auto count_in = [](const std::string& log) {
    int count = 0;
    for (std::size_t at = 0; (at = log.find("the answer is 42", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  const auto gate = add_gate(mesh_);
  const OpenAtEnd open_at_end(gate);
  ::testing::internal::CaptureStderr();
  mesh_.submit(Program("dropped",
                       [](Orchestrator& orch, const Arguments&) {
                         orch.submit("test.gate", 1, TaskArgs{});
                         orch.submit("test.fail", 1, TaskArgs{});
                       }),
               {});
  gate->open();
  EXPECT_TRUE(eventually([&] { return mesh_.stats().runs_in_flight == 0; }));
  mesh_.close();
  EXPECT_EQ(count_in(::testing::internal::GetCapturedStderr()), 1) << "dropped while it ran";
}

TEST_F(MeshFailure, ARunThatNobodyAskedAboutIsLoggedWhenItIsDropped) {
  ::testing::internal::CaptureStderr();
  {
    const rankcast::Run failed = mesh_.submit(launch_on("test.fail", {1}), {});
    mesh_.submit(launch_everywhere("test.count"), {}).wait();
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the answer is 42"));
  ::testing::internal::CaptureStderr();
  {
    const rankcast::Run failed = mesh_.submit(launch_on("test.fail", {1}), {});
    expect_error(ErrorCode::task_failed, {}, [&] { failed.wait(); });
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("the answer is 42")))
      << "its error was thrown";
}

TEST_F(MeshFailure, AnOrchestrationThatThrowsPublishesNothing) {
  const MeshStats before = mesh_.stats();
  const Program program("throws", [](Orchestrator& orch, const Arguments&) {
    for (int rank = 0; rank < 4; ++rank) orch.submit("test.count", rank, TaskArgs{});
    throw std::out_of_range("mine");
  });
  EXPECT_THROW(mesh_.submit(program, {}), std::out_of_range);
  EXPECT_EQ(mesh_.stats().submits, before.submits);
  mesh_.submit(launch_everywhere("test.count"), {}).wait();
  EXPECT_EQ(count_->load(), 4);
}

TEST_F(MeshFailure, ASwallowedRefusalRefusesTheRun) {
  const DeviceTensor on_one = mesh_.alloc(1, {4}, DType::f32);
  const auto error =
      expect_refused(ErrorCode::wrong_rank, {"argument 0", "task 1", "rank 2", "rank 1"},
                     [](Orchestrator& orch, const Arguments& args) {
                       orch.submit("test.count", 1, TaskArgs{}.in(args[0]));
                       try {
                         orch.submit("test.count", 2, TaskArgs{}.in(args[0]));
                       } catch (const Error&) {
                         // As if it were of no importance.
                       }
                       try {
                         orch.submit("test.nobody", 2, TaskArgs{});
                       } catch (const Error&) {
                         // Nor this one; the first is what the submit tells.
                       }
                       orch.submit("test.count", 3, TaskArgs{});
                     },
                     {on_one});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 2);
  EXPECT_EQ(error->argument(), 0);
}

TEST_F(MeshFailure, RefusesKernelsAndRanksNobodyHas) {
  const auto unknown = expect_refused(
      ErrorCode::invalid_argument, {"task 0", "rank 1", "'test.nobody'", "rankcast.sum"},
      [](Orchestrator& orch, const Arguments&) { orch.submit("test.nobody", 1, TaskArgs{}); });
  EXPECT_EQ(unknown->rank(), 1);
  for (const int rank : {-1, 4, 1 << 30}) {
    const auto error =
        expect_refused(ErrorCode::invalid_argument,
                       {"task 0", "'test.count'", "rank " + std::to_string(rank), "0 to 3"},
                       [rank](Orchestrator& orch, const Arguments&) {
                         orch.submit("test.count", rank, TaskArgs{});
                       });
    EXPECT_EQ(error->rank(), rank < 0 ? std::nullopt : std::optional<int>(rank));
  }
}

TEST_F(MeshFailure, RefusesArgumentsThatAreNoTensorOfTheTask) {
  const StackedDeviceTensor stack = mesh_.alloc_stacked({3, 4}, DType::f32);
  const auto whole =
      expect_refused(ErrorCode::invalid_argument,
                     {"argument 1", "argument 0 of the submit", "whole stack", "shard_on"},
                     [](Orchestrator& orch, const Arguments& args) {
                       orch.submit("test.count", 0, TaskArgs{}.in(args[0].shard_on(0)).in(args[0]));
                     },
                     {stack});
  EXPECT_EQ(whole->argument(), 1);
  EXPECT_EQ(whole->rank(), 0);
  const auto scalar = expect_refused(ErrorCode::invalid_argument,
                                     {"argument 0", "argument 1 of the submit", "scalar"},
                                     [](Orchestrator& orch, const Arguments& args) {
                                       orch.submit("test.count", 0, TaskArgs{}.out(args[1]));
                                     },
                                     {stack, 5});
  EXPECT_EQ(scalar->argument(), 0);
  expect_refused(ErrorCode::invalid_argument, {"argument 0", "empty tensor"},
                 [](Orchestrator& orch, const Arguments&) {
                   orch.submit("test.count", 0, TaskArgs{}.in(DeviceTensor()));
                 });
  expect_refused(ErrorCode::wrong_rank, {"3 shards", "none on rank 3"},
                 [](Orchestrator&, const Arguments& args) { args[0].shard_on(3); }, {stack});
  const auto empty =
      expect_refused(ErrorCode::invalid_argument, {"argument 1 of the submit", "empty"},
                     [](Orchestrator&, const Arguments&) {}, {stack, StackedDeviceTensor()});
  EXPECT_EQ(empty->argument(), 1);
}

TEST_F(MeshFailure, TheCheckOfAKernelNamesTheArgument) {
  const StackedDeviceTensor four = mesh_.alloc_stacked({4, 4}, DType::f32);
  const StackedDeviceTensor five = mesh_.alloc_stacked({4, 5}, DType::f32);
  const StackedDeviceTensor ints = mesh_.alloc_stacked({4, 4}, DType::i32);
  const auto sum = [](Orchestrator& orch, const Arguments& args) {
    TaskArgs task;
    for (std::size_t i = 0; i + 1 < args.size(); ++i) task.in(args[i].shard_on(3));
    orch.submit("rankcast.sum", 3, task.out(args[args.size() - 1].shard_on(3)));
  };
  const StackedDeviceTensor result = mesh_.alloc_stacked({4, 4}, DType::f32);
  mesh_.submit(Program("good", sum), {four, four, result}).wait();
  for (int round = 0; round < 2; ++round) {
    const auto shape = expect_refused(ErrorCode::invalid_argument,
                                      {"task 0", "'rankcast.sum'", "rank 3", "argument 1", "[5]"},
                                      sum, {four, five, result});
    EXPECT_EQ(shape->argument(), 1);
    EXPECT_EQ(shape->rank(), 3);
    const auto dtype =
        expect_refused(ErrorCode::invalid_argument, {"argument 2", "i32"}, sum, {four, four, ints});
    EXPECT_EQ(dtype->argument(), 2);
  }
  expect_refused(ErrorCode::invalid_argument, {"1 tensor"}, sum, {four});
  // The tag is a detail of the call that the check sees: what passed as `out` may not as `in`.
  expect_refused(
      ErrorCode::invalid_argument, {"argument 2"},
      [](Orchestrator& orch, const Arguments& args) {
        orch.submit(
            "rankcast.sum", 3,
            TaskArgs{}.in(args[0].shard_on(3)).in(args[1].shard_on(3)).in(args[2].shard_on(3)));
      },
      {four, four, result});
}

TEST_F(MeshFailure, NothingOfTheMeshIsCalledInsideAnOrchestration) {
  const float value = 1;
  const DeviceTensor tensor = mesh_.alloc(0, HostView(&value, {1}));
  const std::uint64_t transfers = mesh_.stats().transfers;
  std::vector<std::function<void()>> calls = {
      [&] { mesh_.submit(launch_everywhere("test.count"), {}); },
      [&] { mesh_.upload(tensor, HostView(&value, {1})); },
      [&] { values_of(mesh_, tensor); },
      [&] { mesh_.close(); },
      [&] { mesh_.alloc(0, HostView(&value, {1})); },
  };
  for (const auto& call : calls) {
    expect_refused(ErrorCode::invalid_argument, {"inside an orchestration function"},
                   [&](Orchestrator& orch, const Arguments&) {
                     orch.submit("test.count", 0, TaskArgs{});
                     call();
                   });
  }
  EXPECT_EQ(mesh_.stats().transfers, transfers);
  EXPECT_EQ(mesh_.stats().live_buffers, 1u);
  // Another mesh is another matter.
  Mesh other = open();
  const auto count = add_counter(other);
  mesh_
      .submit(Program("both",
                      [&](Orchestrator& orch, const Arguments&) {
                        other.submit(launch_everywhere("test.count"), {}).wait();
                        orch.submit("test.count", 0, TaskArgs{});
                      }),
              {})
      .wait();
  EXPECT_EQ(count->load(), 4);
}

TEST_F(MeshFailure, ProgramsHaveAFunction) {
  expect_error(ErrorCode::invalid_argument, {"'nothing'"}, [] { Program("nothing", {}); });
}

}  // namespace
}  // namespace rankcast::test
