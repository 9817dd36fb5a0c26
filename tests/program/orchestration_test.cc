// tests: src/program/program.cc
//
// From a program and its arguments to a draft: references, what they answer, what is encoded, what
// is checked how often.
// tests: src/program/program.cc
// tests: src/program/argument_table.cc
// tests: src/program/task_encoder.cc
// tests: src/program/kernel_checks.cc
// tests: src/program/buffer_places.h
#include "program/orchestration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "program/fake_mesh.h"
#include "support/expect_error.h"

namespace rankcast::program {
namespace {

using detail::OrchestratorImpl;
using test::error_of;
using test::expect_error;

class OrchestrationTest : public ::testing::Test {
 protected:
  void run(Program::Function function, std::vector<Argument> arguments = {}) {
    impl_.run(Program("test", std::move(function)), arguments, ++epoch_);
  }
  /// `look` at the references that an orchestration function is given.
  void with_arguments(std::vector<Argument> arguments, std::function<void(const Arguments&)> look) {
    run([&](Orchestrator&, const Arguments& args) { look(args); }, std::move(arguments));
  }

  FakeMesh mesh_{4};
  std::uint64_t epoch_ = 0;  // each run has its own: nothing is taken over from the last
  OrchestratorImpl impl_{mesh_.view()};
};

TEST_F(OrchestrationTest, ReferencesAnswerForTheirArgument) {
  const DeviceTensor tensor = mesh_.tensor(2, {3, 5}, DType::i16);
  const StackedDeviceTensor stack = mesh_.stack({3, 0}, {7});
  with_arguments({tensor, stack, 42, 2.5}, [&](const Arguments& args) {
    ASSERT_EQ(args.size(), 4u);
    EXPECT_EQ(args[0].rank(), 2);
    EXPECT_EQ(args[0].dtype(), DType::i16);
    EXPECT_EQ(args[0].shape(), (Shape{3, 5}));
    EXPECT_EQ(args[0].shard_count(), 1);
    EXPECT_EQ(args[1].shape(), (Shape{2, 7}));
    EXPECT_EQ(args[1].dtype(), DType::f32);
    EXPECT_EQ(args[1].shard_count(), 2);
    EXPECT_EQ(args[1][0].rank(), 3);
    EXPECT_EQ(args[1][1].rank(), 0);
    EXPECT_EQ(args[1].shard_on(0).shape(), (Shape{7}));
    EXPECT_EQ(args[2].scalar().as_i64(), 42);
    EXPECT_TRUE(args[2].scalar().is_integer());
    EXPECT_EQ(args[2].shard_count(), 0);
    EXPECT_EQ(args[3].scalar().as_f64(), 2.5);
    EXPECT_FALSE(args[3].scalar().is_integer());
  });
}

TEST_F(OrchestrationTest, AScalarIsConvertedToTheNearestThatThereIs) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const auto as_i64 = [](Scalar scalar) { return scalar.as_i64(); };
  EXPECT_EQ(as_i64(2.9), 2);
  EXPECT_EQ(as_i64(-2.9), -2);
  EXPECT_EQ(as_i64(-9223372036854775808.0), kLeast);
  EXPECT_EQ(as_i64(9223372036854775808.0), kMost);
  EXPECT_EQ(as_i64(1e300), kMost);
  EXPECT_EQ(as_i64(-std::numeric_limits<double>::infinity()), kLeast);
  EXPECT_EQ(as_i64(std::numeric_limits<double>::quiet_NaN()), 0);
  EXPECT_EQ(Scalar(kMost).as_f64(), 9223372036854775808.0);
}

TEST_F(OrchestrationTest, AProgramThatWasMovedFromIsRefused) {
  Program first("first", [](Orchestrator&, const Arguments&) {});
  const Program second = std::move(first);
  impl_.run(second, {}, ++epoch_);
  expect_error(ErrorCode::invalid_argument, {"no orchestration function", "moved from"}, [&] {
    impl_.run(first, {}, ++epoch_);  // NOLINT(bugprone-use-after-move): that is what is tested
  });
}

TEST_F(OrchestrationTest, ReferencesRefuseWhatTheyAreNot) {
  const auto refused = [](std::initializer_list<std::string> words, auto call) {
    expect_error(ErrorCode::invalid_argument, words, call);
  };
  with_arguments({mesh_.tensor(2), mesh_.stack({3, 0}), 42}, [&](const Arguments& args) {
    refused({"argument 3", "3"}, [&] { args[3]; });
    refused({"whole stacked", "device tensor"}, [&] { args[0].shard_on(2); });
    refused({"whole stacked", "scalar"}, [&] { args[2].shard_on(2); });
    refused({"one shard already"}, [&] { args[1][0].shard_on(3); });
    refused({"shard 2", "0 to 1"}, [&] { args[1][2]; });
    refused({"shard -1"}, [&] { args[1][-1]; });
    refused({"none to choose from"}, [&] { args[1][0][0]; });
    refused({"none to choose from"}, [&] { args[0][0]; });
    refused({"whole stack", "rank"}, [&] { args[1].rank(); });
    refused({"scalar"}, [&] { args[2].rank(); });
    refused({"scalar"}, [&] { args[2].dtype(); });
    refused({"scalar"}, [&] { args[2].shape(); });
    refused({"tensor, not a scalar"}, [&] { args[0].scalar(); });
    for (const int rank : {1, 2, -1, 4, 1 << 30}) {
      const auto error = error_of([&] { args[1].shard_on(rank); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::wrong_rank);
      EXPECT_EQ(error->rank(), rank < 0 ? std::nullopt : std::optional<int>(rank));
      EXPECT_THAT(error->what(),
                  ::testing::HasSubstr("2 shards and none on rank " + std::to_string(rank)));
    }
  });
}

TEST_F(OrchestrationTest, EncodesWhatWasSubmitted) {
  const StackedDeviceTensor stack = mesh_.stack({0, 1, 2, 3});
  const DeviceTensor other = mesh_.tensor(1, {9}, DType::u8);
  run(
      [&](Orchestrator& orch, const Arguments& args) {
        EXPECT_EQ(orch.world_size(), 4);
        EXPECT_EQ(
            orch.submit("fake.any", 1, TaskArgs{}.in(args[1].shard_on(1)).out(other).scalar(5))
                .index(),
            0u);
        EXPECT_EQ(orch.submit("fake.checked", 3, TaskArgs{}.inout(args[1][3])).index(), 1u);
        EXPECT_EQ(
            orch.submit("fake.any", 1, TaskArgs{}.no_dep(args[1].shard_on(1)).scalar(0.5)).index(),
            2u);
      },
      {1, stack});
  const graph::RunDraft& draft = impl_.draft();
  EXPECT_EQ(draft.task_count(), 3u);
  EXPECT_EQ(impl_.table_visits(), 4u);
  EXPECT_EQ(draft.layouts.size(), 2u);
  std::vector<int> used;
  draft.used.for_each([&](int rank) { used.push_back(rank); });
  EXPECT_EQ(used, (std::vector<int>{1, 3}));

  const frame::FrameDraft& one = draft.lane(1);
  ASSERT_EQ(one.tasks.size(), 2u);
  EXPECT_EQ(one.tasks[0].task, 0u);
  EXPECT_EQ(one.tasks[1].task, 2u);
  EXPECT_EQ(one.tasks[0].kernel, 0u);
  EXPECT_EQ(one.tasks[1].arguments.first, 2u);
  EXPECT_EQ(one.tasks[1].scalars.first, 1u);
  ASSERT_EQ(one.arguments.size(), 3u);
  EXPECT_EQ(one.arguments[0].slot, stack[1].buffer().slot);
  EXPECT_EQ(one.arguments[0].generation, stack[1].buffer().generation);
  EXPECT_EQ(one.arguments[0].argument, 1u)
      << "it remembers which argument of the submit it came from";
  EXPECT_EQ(one.arguments[0].tag, Tag::in);
  EXPECT_EQ(one.arguments[1].slot, other.buffer().slot);
  EXPECT_EQ(one.arguments[1].argument, frame::kNone);
  EXPECT_EQ(one.arguments[1].tag, Tag::out);
  EXPECT_EQ(draft.layouts[one.arguments[1].layout].dtype, DType::u8);
  EXPECT_EQ(one.arguments[2].tag, Tag::no_dep);
  ASSERT_EQ(one.scalars.size(), 2u);
  EXPECT_EQ(one.scalars[0].bits, 5u);
  EXPECT_EQ(one.scalars[1].type, static_cast<std::uint32_t>(RANKCAST_SCALAR_F64));
  EXPECT_EQ(draft.lane(3).tasks[0].kernel, 1u);
  EXPECT_EQ(draft.lane(3).arguments[0].tag, Tag::inout);
}

TEST_F(OrchestrationTest, NothingIsLeftOfTheRunBefore) {
  run([&](Orchestrator& orch, const Arguments&) {
    for (int rank = 0; rank < 4; ++rank) orch.submit("fake.any", rank, TaskArgs{}.scalar(1));
  });
  run([&](Orchestrator& orch, const Arguments&) { orch.submit("fake.any", 2, TaskArgs{}); });
  EXPECT_EQ(impl_.draft().task_count(), 1u);
  EXPECT_EQ(impl_.draft().lane(2).tasks.size(), 1u);
  EXPECT_EQ(impl_.draft().lane(2).scalars.size(), 0u);
  EXPECT_EQ(impl_.draft().lane(0).tasks.size(), 0u);
}

TEST_F(OrchestrationTest, ACheckIsAskedOnceForEachCallThatLooksTheSame) {
  const StackedDeviceTensor stack = mesh_.stack({0, 1, 2, 3});
  const StackedDeviceTensor longer = mesh_.stack({0, 1, 2, 3}, {5});
  const auto on_all = [](Orchestrator& orch, const Arguments& args) {
    for (int rank = 0; rank < 4; ++rank) {
      orch.submit("fake.checked", rank,
                  TaskArgs{}.in(args[0].shard_on(rank)).in(args[0].shard_on(rank)));
    }
  };
  const int before = FakeCatalog::checks.load();
  for (int round = 0; round < 3; ++round) run(on_all, {stack});
  EXPECT_EQ(FakeCatalog::checks.load(), before + 1);
  EXPECT_EQ(mesh_.catalog().finds, 1);
  const std::uint64_t prepare_id = impl_.draft().lane(0).tasks[0].prepare_id;
  EXPECT_NE(prepare_id, 0u);
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(impl_.draft().lane(rank).tasks[0].prepare_id, prepare_id);
  run(on_all, {longer});
  EXPECT_EQ(FakeCatalog::checks.load(), before + 2);
  EXPECT_NE(impl_.draft().lane(0).tasks[0].prepare_id, prepare_id);
  run(on_all, {stack});
  EXPECT_EQ(FakeCatalog::checks.load(), before + 2) << "it remembers several";
  EXPECT_EQ(impl_.draft().lane(0).tasks[0].prepare_id, prepare_id);
}

TEST_F(OrchestrationTest, ACheckThatRefusesIsAskedAgain) {
  const DeviceTensor tensor = mesh_.tensor(0);
  const auto three = [](Orchestrator& orch, const Arguments& args) {
    orch.submit("fake.checked", 0, TaskArgs{}.in(args[0]).in(args[0]).in(args[0]));
  };
  for (int round = 0; round < 2; ++round) {
    const auto error = error_of([&] { run(three, {tensor}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error->argument(), 2);
    EXPECT_EQ(error->rank(), 0);
    EXPECT_THAT(error->what(), ::testing::HasSubstr("3 tensors are too many"));
  }
}

TEST_F(OrchestrationTest, ScalarsAreCheckedButNotPreparedFor) {
  const DeviceTensor tensor = mesh_.tensor(0);
  std::vector<std::uint64_t> prepare_ids;
  const int before = FakeCatalog::checks.load();
  for (int step = 0; step < 5; ++step) {
    run(
        [step](Orchestrator& orch, const Arguments& args) {
          orch.submit("fake.checked", 0, TaskArgs{}.in(args[0]).scalar(step));
        },
        {tensor});
    prepare_ids.push_back(impl_.draft().lane(0).tasks[0].prepare_id);
  }
  EXPECT_EQ(FakeCatalog::checks.load(), before + 5) << "a check sees scalars";
  EXPECT_THAT(prepare_ids, ::testing::Each(prepare_ids.front()))
      << "a preparation is by kernel, shapes, dtypes and strides";
}

TEST_F(OrchestrationTest, RecheckFindsWhatWasFreedSince) {
  const StackedDeviceTensor stack = mesh_.stack({0, 1, 2, 3});
  const DeviceTensor held = mesh_.tensor(2);
  run(
      [&](Orchestrator& orch, const Arguments& args) {
        orch.submit("fake.any", 1, TaskArgs{}.in(args[0].shard_on(1)));
        orch.submit("fake.any", 2, TaskArgs{}.in(args[0].shard_on(2)).in(held));
      },
      {stack});
  EXPECT_TRUE(impl_.recheck_locked().ok());
  mesh_.free(held);
  base::Status status = impl_.recheck_locked();
  EXPECT_EQ(status.code, ErrorCode::stale_tensor);
  EXPECT_EQ(status.rank, 2);
  EXPECT_EQ(status.argument, 1);
  for (const char* word :
       {"argument 1", "the program holds", "task 1", "'fake.any'", "rank 2", "freed"}) {
    EXPECT_THAT(status.text, ::testing::HasSubstr(word));
  }
  mesh_.free(stack[1]);
  status = impl_.recheck_locked();
  EXPECT_EQ(status.rank, 1);
  EXPECT_EQ(status.argument, 0);
  EXPECT_THAT(status.text, ::testing::HasSubstr("argument 0 of the submit"));
}

TEST_F(OrchestrationTest, NoCapOnArgumentsOrTasks) {
  const DeviceTensor tensor = mesh_.tensor(0);
  run(
      [](Orchestrator& orch, const Arguments& args) {
        TaskArgs wide;
        for (int i = 0; i < 5000; ++i) wide.in(args[0]);
        orch.submit("fake.any", 0, wide);
        for (int i = 0; i < 5000; ++i) orch.submit("fake.any", 1, TaskArgs{});
      },
      {tensor});
  EXPECT_EQ(impl_.draft().lane(0).arguments.size(), 5000u);
  EXPECT_EQ(impl_.draft().lane(1).tasks.size(), 5000u);
}

}  // namespace
}  // namespace rankcast::program
