// Temporaries of a run, on each link: what tasks write into them others read, on whatever rank;
// they take one block a rank while the run is in flight, and are nothing outside of it.
//
// tests: src/graph/heap_layout.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class MeshTemporaryOnEachLink : public OnEachLink {
 protected:
  static constexpr int kRanks = 4;

  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-3";
    options.link = GetParam();
    options.max_in_flight = 4;
    return Mesh::open(options);
  }

  /// The error of a submit, or of the run.
  template <class Function>
  std::optional<Error> error_of(Function&& function, std::initializer_list<Argument> arguments) {
    try {
      mesh_.submit(Program("bad", std::forward<Function>(function)), arguments).wait();
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }

  Mesh mesh_ = open();
};

// x -> 2 x -> 4 x -> ... on each rank, each step in a temporary of its own.
TEST_P(MeshTemporaryOnEachLink, ALongChainTakesTwo) {
  constexpr int kSteps = 10;
  const StackedDeviceTensor x = mesh_.alloc_stacked({kRanks, 1000}, DType::f32);
  const StackedDeviceTensor y = mesh_.alloc_stacked({kRanks, 1000}, DType::f32);
  const Program chain("chain", [](Orchestrator& orch, const Arguments& args) {
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      ArgumentRef last = args[0].shard_on(rank);
      for (int step = 0; step < kSteps; ++step) {
        const ArgumentRef next = orch.temp(rank, {1000}, DType::f32);
        EXPECT_EQ(next.rank(), rank);
        EXPECT_EQ(next.shape(), Shape({1000}));
        orch.submit("rankcast.sum", rank, TaskArgs{}.in(last).in(last).out(next));
        last = next;
      }
      orch.copy(args[1].shard_on(rank), last);
    }
  });
  for (int round = 0; round < 5; ++round) {
    const std::vector<float> start(kRanks * 1000, static_cast<float>(round + 1));
    mesh_.upload(x, HostView(start.data(), {kRanks, 1000}));
    const rankcast::Run run = mesh_.submit(chain, {x, y});
    run.wait();
    EXPECT_THAT(values_of(mesh_, y), Each(static_cast<float>((round + 1) << kSteps)));
    for (const RankReport& rank : run.report().ranks) {
      EXPECT_EQ(rank.heap_bytes, 2 * 4096u) << "4,000 bytes and 96, twice";
    }
  }
}

TEST_P(MeshTemporaryOnEachLink, ViewsAndCopiesBetweenRanks) {
  const DeviceTensor result = mesh_.alloc(3, {4, 2}, DType::f32);
  const Program gather("gather", [](Orchestrator& orch, const Arguments& args) {
    const ArgumentRef all = orch.temp(3, {2, 4}, DType::f32);
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      const ArgumentRef own = orch.temp(rank, {2, 1}, DType::f32);
      orch.submit("rankcast.fill", rank, TaskArgs{}.out(own).scalar(rank + 10));
      orch.copy(all.slice(1, rank, rank + 1), own);
    }
    orch.copy(args[0], all.transpose(0, 1));
  });
  for (int round = 0; round < 20; ++round) {
    mesh_.submit(gather, {result}).wait();
    EXPECT_THAT(values_of(mesh_, result), ::testing::ElementsAre(10, 10, 11, 11, 12, 12, 13, 13));
  }
}

TEST_P(MeshTemporaryOnEachLink, SeveralRunsInFlight) {
  std::vector<DeviceTensor> results;
  std::vector<rankcast::Run> runs;
  const Program fill("fill", [](Orchestrator& orch, const Arguments& args) {
    const ArgumentRef far = orch.temp(0, {5000}, DType::f32);
    const ArgumentRef near = orch.temp(1, {5000}, DType::f32);
    orch.submit("rankcast.fill", 0, TaskArgs{}.out(far).scalar(args[1].scalar()));
    orch.copy(near, far);
    orch.copy(args[0], near);
  });
  for (int i = 0; i < 12; ++i) {
    results.push_back(mesh_.alloc(1, {5000}, DType::f32));
    runs.push_back(mesh_.submit(fill, {results.back(), i}));
  }
  for (int i = 0; i < 12; ++i) {
    runs[static_cast<std::size_t>(i)].wait();
    EXPECT_THAT(values_of(mesh_, results[static_cast<std::size_t>(i)]),
                Each(static_cast<float>(i)));
  }
}

TEST_P(MeshTemporaryOnEachLink, OtherShapesNextTime) {
  const DeviceTensor out = mesh_.alloc(1, {64}, DType::i64);
  for (int round = 0; round < 12; ++round) {
    const std::int64_t extent = 64 + round % 3 * 64;
    const int many = 1 + round % 4;
    const Program program("shapes", [&](Orchestrator& orch, const Arguments& args) {
      std::optional<ArgumentRef> last;
      for (int i = 0; i < many; ++i) {
        const ArgumentRef next = orch.temp(1, {extent}, DType::i64);
        orch.submit("rankcast.fill", 1, TaskArgs{}.out(next).scalar(round * 10 + i));
        last = next;
      }
      orch.copy(args[0], last->slice(0, extent - 64, extent));
    });
    mesh_.submit(program, {out}).wait();
    std::vector<std::int64_t> values(64);
    mesh_.download(out, MutableHostView(values.data(), {64}));
    EXPECT_THAT(values, Each(round * 10 + many - 1));
  }
}

TEST_P(MeshTemporaryOnEachLink, AFailureDoesNotCrossAPlaceThatIsUsedAgain) {
  mesh_.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
  const DeviceTensor bad = mesh_.alloc(0, {32}, DType::f32);
  const DeviceTensor good = mesh_.alloc(0, {32}, DType::f32);
  const std::vector<float> ones(32, 1.0F);
  mesh_.upload(bad, HostView(ones.data(), {32}));
  const Program program("half", [](Orchestrator& orch, const Arguments& args) {
    const ArgumentRef first = orch.temp(0, {32}, DType::f32);
    orch.submit("probe.refuses", 0, TaskArgs{}.out(first));
    orch.copy(args[0], first);
    const ArgumentRef second = orch.temp(0, {32}, DType::f32);
    orch.submit("rankcast.fill", 0, TaskArgs{}.out(second).scalar(7));
    orch.copy(args[1], second);
  });
  const rankcast::Run run = mesh_.submit(program, {bad, good});
  EXPECT_THROW(run.wait(), Error);
  EXPECT_EQ(run.report().ranks.at(0).heap_bytes, 128u) << "both had one place";
  EXPECT_THAT(values_of(mesh_, good), Each(7.0F));
}

TEST_P(MeshTemporaryOnEachLink, NothingOutsideOfItsRun) {
  const DeviceTensor out = mesh_.alloc(0, {32}, DType::f32);
  std::optional<ArgumentRef> kept;
  std::optional<ArgumentRef> kept_view;
  TaskArgs kept_args;
  mesh_
      .submit(Program("first",
                      [&](Orchestrator& orch, const Arguments& args) {
                        kept = orch.temp(0, {32}, DType::f32);
                        kept_view = kept->slice(0, 0, 32);
                        kept_args = std::move(TaskArgs{}.in(*kept).out(args[0]));
                        orch.submit("rankcast.fill", 0, TaskArgs{}.out(*kept).scalar(1));
                        orch.copy(args[0], *kept);
                      }),
              {out})
      .wait();
  const auto refused = [&](auto&& function) {
    const std::optional<Error> error = error_of(function, {out});
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::stale_tensor) << error->what();
    EXPECT_THAT(error->what(), HasSubstr("a temporary of another run"));
  };
  refused([&](Orchestrator& orch, const Arguments& args) { orch.copy(args[0], *kept); });
  refused([&](Orchestrator& orch, const Arguments& args) { orch.copy(args[0], *kept_view); });
  refused([&](Orchestrator& orch, const Arguments& args) {
    orch.submit("rankcast.copy", 0, TaskArgs{}.in(*kept).out(args[0]));
  });
  refused(
      [&](Orchestrator& orch, const Arguments&) { orch.submit("rankcast.copy", 0, kept_args); });
  refused([&](Orchestrator&, const Arguments&) { kept->slice(0, 0, 1); });
  EXPECT_THAT(values_of(mesh_, out), Each(1.0F));
}

TEST_P(MeshTemporaryOnEachLink, WhatIsRefused) {
  const DeviceTensor out = mesh_.alloc(0, {32}, DType::f32);
  const auto refused = [&](ErrorCode code, const auto& text, auto&& function) {
    const std::optional<Error> error = error_of(function, {out});
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), code) << error->what();
    EXPECT_THAT(error->what(), text);
  };
  refused(ErrorCode::invalid_argument,
          AllOf(HasSubstr("argument 0 (temporary 1 of the run) of task 1 ('rankcast.copy')"),
                HasSubstr("no earlier task of the run writes it")),
          [](Orchestrator& orch, const Arguments& args) {
            const ArgumentRef written = orch.temp(0, {32}, DType::f32);
            const ArgumentRef read = orch.temp(0, {32}, DType::f32);
            orch.submit("rankcast.fill", 0, TaskArgs{}.out(written).scalar(1));
            orch.submit("rankcast.copy", 0, TaskArgs{}.in(read).out(args[0]));
          });
  refused(ErrorCode::invalid_argument, HasSubstr("temporary 0 names rank 4"),
          [](Orchestrator& orch, const Arguments&) { orch.temp(4, {32}, DType::f32); });
  refused(ErrorCode::invalid_argument, HasSubstr("temporary 0 names rank -1"),
          [](Orchestrator& orch, const Arguments&) {
            try {
              orch.temp(-1, {32}, DType::f32);
            } catch (const Error&) {
              // swallowed: the run is refused all the same
            }
          });
  refused(ErrorCode::wrong_rank, HasSubstr("argument 0 (temporary 0 of the run)"),
          [](Orchestrator& orch, const Arguments&) {
            const ArgumentRef there = orch.temp(2, {32}, DType::f32);
            orch.submit("rankcast.fill", 0, TaskArgs{}.out(there).scalar(1));
          });
  refused(ErrorCode::invalid_argument, HasSubstr("shares bytes with argument 0"),
          [](Orchestrator& orch, const Arguments&) {
            const ArgumentRef one = orch.temp(0, {32}, DType::f32);
            orch.submit("rankcast.fill", 0, TaskArgs{}.out(one).scalar(1));
            orch.submit("rankcast.copy", 0,
                        TaskArgs{}.in(one.slice(0, 0, 8)).out(one.slice(0, 4, 12)));
          });
  refused(ErrorCode::out_of_memory, HasSubstr("rank 0: no memory for"),
          [](Orchestrator& orch, const Arguments&) {
            const ArgumentRef huge = orch.temp(0, {std::int64_t{1} << 60}, DType::u8);
            orch.submit("rankcast.fill", 0, TaskArgs{}.out(huge).scalar(1));
          });
  mesh_
      .submit(Program("good",
                      [](Orchestrator& orch, const Arguments& args) {
                        const ArgumentRef one = orch.temp(0, {32}, DType::f32);
                        orch.submit("rankcast.fill", 0, TaskArgs{}.out(one).scalar(3));
                        orch.copy(args[0], one);
                      }),
              {out})
      .wait();
  EXPECT_THAT(values_of(mesh_, out), Each(3.0F));
}

INSTANTIATE_TEST_SUITE_P(Links, MeshTemporaryOnEachLink, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
