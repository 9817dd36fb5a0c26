// tests: src/mesh/submit.cc
//
// DP8-142: 8 ranks, 142 tensors each, one submit; and one bad handle hidden among 1,136 good ones.
// tests: src/mesh/submit.cc
#include <gtest/gtest.h>

#include <array>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

constexpr int kRanks = 8;
constexpr int kTensors = 142;
constexpr std::int64_t kElements = 16;

Mesh open8(const std::string& link = "thread") {
  MeshOptions options;
  options.devices = "cpu:0-7";
  options.link = link;
  return Mesh::open(options);
}

/// Input k of rank r holds r * 1000 + k + element.
std::vector<float> input_of(int k) {
  std::vector<float> values;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::int64_t i = 0; i < kElements; ++i)
      values.push_back(static_cast<float>(rank * 1000 + k + i));
  }
  return values;
}

Program rank_sum() {
  return Program("rank_sum", [](Orchestrator& orch, const Arguments& args) {
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      TaskArgs task;
      for (std::size_t i = 0; i + 1 < args.size(); ++i) task.in(args[i].shard_on(rank));
      task.out(args[args.size() - 1].shard_on(rank));
      orch.submit("rankcast.sum", rank, task);
    }
  });
}

std::vector<float> expected_sums() {
  std::vector<float> sums(static_cast<std::size_t>(kRanks * kElements), 0.0f);
  for (int k = 0; k + 1 < kTensors; ++k) {
    const std::vector<float> input = input_of(k);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += input[i];
  }
  return sums;
}

class MeshDispatchOnLink : public OnEachLink {};

TEST_P(MeshDispatchOnLink, Dp8_142GivesTheRightSums) {
  Mesh mesh = open8(GetParam());
  std::vector<Argument> arguments;
  for (int k = 0; k + 1 < kTensors; ++k) {
    const std::vector<float> input = input_of(k);
    arguments.emplace_back(mesh.alloc_stacked(HostView(input.data(), {kRanks, kElements})));
  }
  const StackedDeviceTensor out = mesh.alloc_stacked({kRanks, kElements}, DType::f32);
  arguments.emplace_back(out);
  const Program program = rank_sum();
  const std::vector<float> sums = expected_sums();
  const std::vector<float> wrong(sums.size(), -1.0f);
  std::uint64_t last_id = 0;
  for (int round = 0; round < 20; ++round) {
    mesh.upload(out, HostView(wrong.data(), {kRanks, kElements}));
    if (round % 5 == 0) mesh.free(mesh.alloc(0, {1}, DType::u8));
    const MeshStats before = mesh.stats();
    const rankcast::Run run = mesh.submit(program, arguments);
    EXPECT_GT(run.dispatch_id(), last_id);
    last_id = run.dispatch_id();
    run.wait();
    const MeshStats after = mesh.stats();
    EXPECT_EQ(after.submits - before.submits, 1u);
    // Encoded once; checked again only when something was freed since the last run.
    EXPECT_EQ(after.descriptors_built - before.descriptors_built, round == 0 ? 1136u : 0u);
    EXPECT_EQ(after.table_visits - before.table_visits, round % 5 == 0 ? 1136u : 0u);
    if (round > 0) {
      EXPECT_EQ(after.arena_growths - before.arena_growths, 0u);
    }
    ASSERT_EQ(values_of(mesh, out), sums) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Links, MeshDispatchOnLink, all_links(), name_of_link);

TEST(MeshDispatch, ProgramsThatTakeTurnsBothRepeat) {
  Mesh mesh = open8();
  const StackedDeviceTensor in = mesh.alloc_stacked({kRanks, kElements}, DType::f32);
  const StackedDeviceTensor out = mesh.alloc_stacked({kRanks, kElements}, DType::f32);
  const Program prefill = rank_sum();
  const Program decode("decode", [](Orchestrator& orch, const Arguments& args) {
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      orch.submit("rankcast.copy", rank,
                  TaskArgs{}.in(args[0].shard_on(rank)).out(args[1].shard_on(rank)));
    }
  });
  for (int round = 0; round < 5; ++round) {
    const MeshStats before = mesh.stats();
    mesh.submit(prefill, {in, out}).wait();
    mesh.submit(decode, {in, out}).wait();
    const MeshStats after = mesh.stats();
    EXPECT_EQ(after.descriptors_built - before.descriptors_built, round == 0 ? 4u * kRanks : 0u);
  }
}

TEST(MeshDispatch, ManyProgramsEachGiveTheirOwnResult) {
  Mesh mesh = open8();
  const StackedDeviceTensor out = mesh.alloc_stacked({kRanks, kElements}, DType::f32);
  for (int round = 0; round < 3; ++round) {
    for (int number = 0; number < 40; ++number) {
      const Program program("fill " + std::to_string(number), [number](Orchestrator& orch,
                                                                       const Arguments& args) {
        for (int rank = 0; rank < orch.world_size(); ++rank) {
          orch.submit("rankcast.fill", rank,
                      TaskArgs{}.out(args[0].shard_on(rank)).scalar(static_cast<double>(number)));
        }
      });
      mesh.submit(program, {out}).wait();
      ASSERT_EQ(values_of(mesh, out),
                std::vector<float>(kRanks * kElements, static_cast<float>(number)));
    }
  }
}

enum class Bad { stale, foreign, wrong_rank, reused, stale_view };
enum class Where { program, arguments };
enum class When { first_submit, later_submit };

struct Case {
  Bad bad;
  Where where;
  When when;
  int rank;
  int argument;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Bad bad : {Bad::stale, Bad::foreign, Bad::wrong_rank, Bad::reused, Bad::stale_view}) {
    for (const Where where : {Where::program, Where::arguments}) {
      for (const When when : {When::first_submit, When::later_submit}) {
        cases.push_back({bad, where, when, 0, 0});
        cases.push_back({bad, where, when, 4, 71});
        cases.push_back({bad, where, when, kRanks - 1, kTensors - 1});
      }
    }
  }
  return cases;
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  constexpr std::array kBad = {"Stale", "Foreign", "WrongRank", "ReusedSlot", "ViewOfFreed"};
  constexpr std::array kWhere = {"HeldByTheProgram", "AmongTheArguments"};
  return std::string(kBad[static_cast<std::size_t>(info.param.bad)]) +
         kWhere[static_cast<std::size_t>(info.param.where)] +
         (info.param.when == When::first_submit ? "AtOnce" : "Later") + "Rank" +
         std::to_string(info.param.rank) + "Argument" + std::to_string(info.param.argument);
}

class MeshBadHandle : public ::testing::TestWithParam<Case> {
 protected:
  using Handles = std::array<std::array<DeviceTensor, kTensors>, kRanks>;

  static ErrorCode code() {
    switch (GetParam().bad) {
      case Bad::foreign:
        return ErrorCode::foreign_tensor;
      case Bad::wrong_rank:
        return ErrorCode::wrong_rank;
      default:
        return ErrorCode::stale_tensor;
    }
  }

  rankcast::Run submit(const Handles& handles) {
    if (GetParam().where == Where::program) {
      const Program held("held", [&handles](Orchestrator& orch, const Arguments&) {
        for (int rank = 0; rank < kRanks; ++rank) {
          TaskArgs task;
          for (const DeviceTensor& tensor : handles[static_cast<std::size_t>(rank)])
            task.in(tensor);
          orch.submit("test.count", rank, task);
        }
      });
      return mesh_.submit(held, {});
    }
    std::vector<Argument> arguments;
    for (const auto& of_rank : handles)
      arguments.insert(arguments.end(), of_rank.begin(), of_rank.end());
    const Program given("given", [](Orchestrator& orch, const Arguments& args) {
      for (int rank = 0; rank < kRanks; ++rank) {
        TaskArgs task;
        for (int i = 0; i < kTensors; ++i)
          task.in(args[static_cast<std::size_t>(rank * kTensors + i)]);
        orch.submit("test.count", rank, task);
      }
    });
    return mesh_.submit(given, arguments);
  }

  DeviceTensor bad_handle(const DeviceTensor& good) {
    switch (GetParam().bad) {
      case Bad::foreign:
        return other_.alloc(GetParam().rank, {kElements}, DType::f32);
      case Bad::wrong_rank:
        return mesh_.alloc((GetParam().rank + 1) % kRanks, {kElements}, DType::f32);
      case Bad::stale:
        mesh_.free(good);
        return good;
      case Bad::reused: {
        mesh_.free(good);
        const DeviceTensor next = mesh_.alloc(GetParam().rank, {kElements}, DType::f32);
        EXPECT_EQ(next.buffer().slot, good.buffer().slot);
        return good;
      }
      case Bad::stale_view: {
        const DeviceTensor view = good.slice(0, 4, 8);
        mesh_.free(good);
        return view;
      }
    }
    return {};
  }

  Mesh mesh_ = open8();
  Mesh other_ = open8();
};

TEST_P(MeshBadHandle, IsRefusedAndNoRankStarts) {
  const auto count = add_counter(mesh_);
  auto handles = std::make_unique<Handles>();
  for (int rank = 0; rank < kRanks; ++rank) {
    for (DeviceTensor& tensor : (*handles)[static_cast<std::size_t>(rank)]) {
      tensor = mesh_.alloc(rank, {kElements}, DType::f32);
    }
  }
  const auto [bad, where, when, rank, argument] = GetParam();
  // Later: all of it repeats but for the bad one.
  const int before_it = when == When::later_submit ? kRanks : 0;
  if (before_it != 0) submit(*handles).wait();
  ASSERT_EQ(count->load(), before_it);

  DeviceTensor& place =
      (*handles)[static_cast<std::size_t>(rank)][static_cast<std::size_t>(argument)];
  place = bad_handle(place);
  const MeshStats before = mesh_.stats();
  const auto error = error_of([&] { submit(*handles); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error_code_name(error->code()), error_code_name(code())) << error->what();
  EXPECT_EQ(error->rank(), rank) << error->what();
  // Whose mesh a tensor of the submit belongs to is looked at before any task names it.
  const bool of_submit = bad == Bad::foreign && where == Where::arguments;
  const int index = of_submit ? rank * kTensors + argument : argument;
  EXPECT_EQ(error->argument(), index) << error->what();
  EXPECT_THAT(error->what(), ::testing::HasSubstr("argument " + std::to_string(index)));
  if (!of_submit) {
    EXPECT_THAT(error->what(), ::testing::HasSubstr("rank " + std::to_string(rank)));
    EXPECT_THAT(error->what(), ::testing::HasSubstr("task " + std::to_string(rank)));
    EXPECT_THAT(error->what(), ::testing::HasSubstr("'test.count'"));
  }
  const MeshStats after = mesh_.stats();
  EXPECT_EQ(after.submits, before.submits);
  EXPECT_EQ(after.bytes_written, before.bytes_written);
  EXPECT_EQ(after.runs_in_flight, 0u);

  // Every lane passes another run: whatever the refused one had left there would run before it.
  mesh_.submit(launch_everywhere("test.count"), {}).wait();
  EXPECT_EQ(count->load(), before_it + kRanks);
}

INSTANTIATE_TEST_SUITE_P(Hidden, MeshBadHandle, ::testing::ValuesIn(all_cases()), name_of);

/// Counters of one DP8-3 submit with so many buffers alive beside its own.
std::pair<std::uint64_t, std::uint64_t> counters_with(std::int64_t live_buffers) {
  Mesh mesh = open8();
  std::vector<Argument> arguments;
  const std::vector<float> input = input_of(0);
  for (int k = 0; k < 2; ++k)
    arguments.emplace_back(mesh.alloc_stacked(HostView(input.data(), {kRanks, kElements})));
  for (std::int64_t i = 0; i < live_buffers / kRanks; ++i)
    mesh.alloc_stacked({kRanks, kElements}, DType::f32);
  arguments.emplace_back(mesh.alloc_stacked({kRanks, kElements}, DType::f32));
  EXPECT_GE(mesh.stats().live_buffers, static_cast<std::uint64_t>(live_buffers));
  const Program program = rank_sum();
  mesh.submit(program, arguments).wait();
  mesh.free(mesh.alloc(0, {1}, DType::u8));  // so that the next run checks all its handles again
  const MeshStats before = mesh.stats();
  mesh.submit(program, arguments).wait();
  const MeshStats after = mesh.stats();
  return {after.bytes_written - before.bytes_written, after.table_visits - before.table_visits};
}

TEST(MeshDispatch, WhatElseIsAliveIsNotLookedAt) {
  EXPECT_EQ(counters_with(1136), counters_with(24));
}

TEST(ThoroughMeshDispatch, AMillionBuffersAreNotLookedAt) {
  const auto few = counters_with(1136);
  EXPECT_EQ(few.second, 24u);
  EXPECT_EQ(counters_with(1'000'000), few);
}

}  // namespace
}  // namespace rankcast::test
