// tests: src/mesh/runs.cc
//
// Runs: waiting, several in flight, reports, handles, and what programs may be.
// tests: src/mesh/runs.cc
// tests: src/mesh/run_state.h
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using std::chrono::milliseconds;

Mesh open(std::string devices, int max_in_flight = 8) {
  MeshOptions options;
  options.devices = std::move(devices);
  options.max_in_flight = max_in_flight;
  return Mesh::open(options);
}

TEST(MeshRun, WaitForIsFalseThenTrue) {
  Mesh mesh = open("cpu:0-1");
  const auto gate = add_gate(mesh);
  const OpenAtEnd open_at_end(gate);
  const rankcast::Run run = mesh.submit(launch_everywhere("test.gate"), {});
  gate->wait_entered(2);
  EXPECT_FALSE(run.done());
  EXPECT_FALSE(run.wait_for(milliseconds(0)));
  EXPECT_FALSE(run.wait_for(milliseconds(5)));
  EXPECT_FALSE(run.done()) << "a wait that timed out leaves the run alone";
  EXPECT_EQ(mesh.stats().runs_in_flight, 1u);
  gate->open();
  EXPECT_TRUE(run.wait_for(kHangLimit));
  EXPECT_TRUE(run.done());
  EXPECT_TRUE(run.wait_for(milliseconds(0)));
  run.wait();
  EXPECT_EQ(mesh.stats().runs_in_flight, 0u);
}

TEST(MeshRun, RefusesTimesThatAreNone) {
  Mesh mesh = open("cpu:0");
  add_counter(mesh);
  const rankcast::Run run = mesh.submit(launch_everywhere("test.count"), {});
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -0.001,
                           -std::numeric_limits<double>::infinity()}) {
    expect_error(ErrorCode::invalid_argument, {"wait_for"},
                 [&] { run.wait_for(std::chrono::duration<double>(bad)); });
    expect_error(ErrorCode::invalid_argument, {"close"},
                 [&] { mesh.close(std::chrono::duration<double>(bad)); });
  }
  EXPECT_TRUE(run.wait_for(std::chrono::duration<double>(std::numeric_limits<double>::infinity())));
  EXPECT_EQ(mesh.world_size(), 1) << "a close that was refused closes nothing";
}

TEST(MeshRun, TwoThreadsWaitForOne) {
  Mesh mesh = open("cpu:0-1");
  const auto gate = add_gate(mesh);
  const OpenAtEnd open_at_end(gate);
  for (int round = 0; round < 3; ++round) {
    const rankcast::Run run = mesh.submit(launch_everywhere("test.gate"), {});
    std::atomic<int> waiting{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        waiting.fetch_add(1);
        if (i % 2 == 0) {
          run.wait();
        } else {
          EXPECT_TRUE(run.wait_for(kHangLimit));
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return waiting.load() == 4; }));
    gate->open();
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(run.done());
  }
}

TEST(MeshRun, SeveralAreInFlightAndEndInOrder) {
  Mesh mesh = open("cpu:0-2", 4);
  const auto gate = add_gate(mesh);
  const OpenAtEnd open_at_end(gate);
  std::mutex mutex;
  std::vector<std::int64_t> order;
  mesh.register_kernel("test.note", [&](const KernelCall& call) {
    const std::lock_guard lock(mutex);
    order.push_back(call.scalars[0].value.i64);
  });
  std::vector<rankcast::Run> runs;
  runs.push_back(mesh.submit(launch_on("test.gate", {1}), {}));
  for (int i = 0; i < 3; ++i) {
    runs.push_back(mesh.submit(Program("note",
                                       [i](Orchestrator& orch, const Arguments&) {
                                         orch.submit("test.note", 1, TaskArgs{}.scalar(i));
                                       }),
                               {}));
  }
  gate->wait_entered(1);
  EXPECT_EQ(mesh.stats().runs_in_flight, 4u);
  for (const rankcast::Run& run : runs) EXPECT_FALSE(run.done());
  gate->open();
  runs[3].wait();
  for (const rankcast::Run& run : runs)
    EXPECT_TRUE(run.done()) << "a later run of the lane has ended";
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2}));
  for (std::size_t i = 1; i < runs.size(); ++i)
    EXPECT_EQ(runs[i].dispatch_id(), runs[i - 1].dispatch_id() + 1);
}

TEST(MeshRun, ASubmitOverTheLimitWaitsForRoom) {
  Mesh mesh = open("cpu:0-1", 2);
  const auto gate = add_gate(mesh);
  const OpenAtEnd open_at_end(gate);
  const auto count = add_counter(mesh);
  std::vector<rankcast::Run> blocking;
  for (int i = 0; i < 2; ++i) blocking.push_back(mesh.submit(launch_on("test.gate", {0}), {}));

  constexpr int kThreads = 3;
  std::atomic<int> laid_out{0};
  std::atomic<int> returned{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const rankcast::Run run = mesh.submit(Program("late",
                                                    [&](Orchestrator& orch, const Arguments&) {
                                                      orch.submit("test.count", 1, TaskArgs{});
                                                      laid_out.fetch_add(1);
                                                    }),
                                            {});
      returned.fetch_add(1);
      run.wait();
    });
  }
  EXPECT_TRUE(eventually([&] { return laid_out.load() == kThreads; }));
  EXPECT_EQ(mesh.stats().runs_in_flight, 2u);
  EXPECT_EQ(mesh.stats().submits, 2u);
  EXPECT_EQ(returned.load(), 0);
  EXPECT_EQ(count->load(), 0);
  gate->open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count->load(), kThreads);
  EXPECT_EQ(mesh.stats().submits, 2u + kThreads);
}

TEST(MeshRun, TheReportAgreesWithItself) {
  Mesh mesh = open("cpu:0-5");
  const auto gate = add_gate(mesh);
  const OpenAtEnd open_at_end(gate);
  add_counter(mesh);
  const Program program("some", [](Orchestrator& orch, const Arguments&) {
    for (const int rank : {0, 2, 5}) {
      for (int i = 0; i <= rank; ++i) orch.submit("test.count", rank, TaskArgs{});
    }
    orch.submit("test.gate", 5, TaskArgs{});
  });
  const rankcast::Run run = mesh.submit(program, {});
  gate->wait_entered(1);
  expect_error(ErrorCode::invalid_argument,
               {"report", "run " + std::to_string(run.dispatch_id()), "before it is done"},
               [&] { run.report(); });
  gate->open();
  run.wait();
  const RunReport report = run.report();
  EXPECT_EQ(report.dispatch_id, run.dispatch_id());
  ASSERT_EQ(report.ranks.size(), 3u);
  double first = std::numeric_limits<double>::infinity();
  double last = 0;
  double end = 0;
  for (const RankReport& rank : report.ranks) {
    EXPECT_EQ(rank.tasks, rank.rank == 5 ? 7u : static_cast<std::uint32_t>(rank.rank) + 1);
    EXPECT_GE(rank.entry_us, 0);
    EXPECT_GE(rank.exit_us, rank.entry_us);
    EXPECT_NEAR(rank.execution_us, rank.exit_us - rank.entry_us, 0.01);
    first = std::min(first, rank.entry_us);
    last = std::max(last, rank.entry_us);
    end = std::max(end, rank.exit_us);
  }
  EXPECT_EQ(report.ranks[0].rank, 0);
  EXPECT_EQ(report.ranks[1].rank, 2);
  EXPECT_EQ(report.ranks[2].rank, 5);
  EXPECT_NEAR(report.entry_spread_us, last - first, 0.01);
  EXPECT_NEAR(report.total_us, end, 0.01);
  EXPECT_GT(report.submit_us, 0);
}

TEST(MeshRun, ARunWithoutTasksIsDone) {
  Mesh mesh = open("cpu:0-1", 1);
  const auto gate = add_gate(mesh);
  const OpenAtEnd open_at_end(gate);
  const rankcast::Run blocking = mesh.submit(launch_on("test.gate", {0}), {});
  const rankcast::Run empty =
      mesh.submit(Program("empty", [](Orchestrator&, const Arguments&) {}), {});
  EXPECT_TRUE(empty.done());
  empty.wait();
  EXPECT_TRUE(empty.wait_for(milliseconds(0)));
  EXPECT_GT(empty.dispatch_id(), blocking.dispatch_id());
  const RunReport report = empty.report();
  EXPECT_TRUE(report.ranks.empty());
  EXPECT_EQ(report.entry_spread_us, 0);
  EXPECT_GE(report.total_us, report.submit_us);
  gate->open();
  blocking.wait();
  const rankcast::Run next = mesh.submit(launch_on("test.gate", {1}), {});
  next.wait();
  EXPECT_GT(next.dispatch_id(), empty.dispatch_id());
}

TEST(MeshRun, AnEmptyHandleSaysSo) {
  const rankcast::Run empty;
  EXPECT_FALSE(empty.valid());
  const auto refused = [](auto call) {
    expect_error(ErrorCode::invalid_argument, {"empty"}, call);
  };
  refused([&] { empty.dispatch_id(); });
  refused([&] { empty.done(); });
  refused([&] { empty.wait(); });
  refused([&] { empty.wait_for(milliseconds(1)); });
  refused([&] { empty.report(); });
}

TEST(MeshRun, HandlesMove) {
  Mesh mesh = open("cpu:0");
  add_counter(mesh);
  rankcast::Run first = mesh.submit(launch_everywhere("test.count"), {});
  const std::uint64_t id = first.dispatch_id();
  rankcast::Run second(std::move(first));
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(second.dispatch_id(), id);
  rankcast::Run third;
  third = std::move(second);
  third.wait();
  EXPECT_EQ(third.report().dispatch_id, id);
  third = mesh.submit(launch_everywhere("test.count"), {});
  EXPECT_EQ(third.dispatch_id(), id + 1);
  third.wait();
}

TEST(MeshRun, AHandleOutlivesItsMesh) {
  rankcast::Run run;
  rankcast::Run dropped_later;
  {
    Mesh mesh = open("cpu:0-1");
    add_counter(mesh);
    run = mesh.submit(launch_everywhere("test.count"), {});
    dropped_later = mesh.submit(launch_everywhere("test.count"), {});
  }
  EXPECT_TRUE(run.done());
  run.wait();
  EXPECT_EQ(run.report().ranks.size(), 2u);
  run = rankcast::Run();
  EXPECT_TRUE(dropped_later.done());
}

TEST(MeshRun, DroppedHandlesLeaveTheirRunsGoing) {
  Mesh mesh = open("cpu:0-1", 4);
  const auto count = add_counter(mesh);
  for (int i = 0; i < 100; ++i) mesh.submit(launch_everywhere("test.count"), {});
  EXPECT_TRUE(eventually([&] { return mesh.stats().runs_in_flight == 0; }))
      << "nobody waits for them, still they end";
  EXPECT_EQ(count->load(), 200);
}

TEST(MeshRun, ScalarsArriveAsTheyWere) {
  Mesh mesh = open("cpu:0");
  std::vector<std::pair<std::int32_t, double>> seen;
  mesh.register_kernel("test.scalars", [&](const KernelCall& call) {
    for (const rankcast_scalar& scalar : call.scalars) {
      seen.emplace_back(scalar.type, scalar.type == RANKCAST_SCALAR_I64
                                         ? static_cast<double>(scalar.value.i64)
                                         : scalar.value.f64);
    }
  });
  const Program program("scalars", [](Orchestrator& orch, const Arguments& args) {
    EXPECT_EQ(args[0].scalar().as_i64(), 7);
    EXPECT_EQ(args[1].scalar().as_f64(), -2.5);
    orch.submit("test.scalars", 0,
                TaskArgs{}.scalar(args[0].scalar()).scalar(args[1].scalar()).scalar(3));
    orch.submit("test.scalars", 0, TaskArgs{}.scalar(0.5f));
  });
  mesh.submit(program, {7, -2.5}).wait();
  EXPECT_EQ(seen, (std::vector<std::pair<std::int32_t, double>>{{RANKCAST_SCALAR_I64, 7},
                                                                {RANKCAST_SCALAR_F64, -2.5},
                                                                {RANKCAST_SCALAR_I64, 3},
                                                                {RANKCAST_SCALAR_F64, 0.5}}));
}

TEST(MeshRun, TasksOfARankRunInTheOrderOfSubmission) {
  Mesh mesh = open("cpu:0-1");
  const StackedDeviceTensor values =
      mesh.alloc_stacked(HostView(counting<std::int64_t>(2, 1).data(), {2, 1}));
  mesh.register_kernel("test.append", [](const KernelCall& call) {
    auto* value = static_cast<std::int64_t*>(call.tensors[0].data);
    *value = *value * 10 + call.scalars[0].value.i64;
  });
  const Program program("append", [](Orchestrator& orch, const Arguments& args) {
    for (int digit = 2; digit < 7; ++digit) {
      for (int rank = 0; rank < 2; ++rank) {
        const Task task = orch.submit("test.append", rank,
                                      TaskArgs{}.inout(args[0].shard_on(rank)).scalar(digit));
        EXPECT_EQ(task.index(), static_cast<std::uint32_t>((digit - 2) * 2 + rank));
      }
    }
  });
  mesh.submit(program, {values}).wait();
  EXPECT_EQ(values_of<std::int64_t>(mesh, values), (std::vector<std::int64_t>{123456, 223456}));
}

TEST(MeshRun, KernelsSeeWhereTheyRun) {
  Mesh mesh = open("cpu:0-2");
  const StackedDeviceTensor tensor = mesh.alloc_stacked({3, 2, 5}, DType::bf16);
  std::atomic<int> good{0};
  mesh.register_kernel("test.look", [&](const KernelCall& call) {
    const rankcast_kernel_context& context = call.context;
    EXPECT_EQ(context.world_size, 3);
    EXPECT_EQ(context.abi_version, RANKCAST_KERNEL_ABI_VERSION);
    EXPECT_EQ(context.member_count, 0);
    ASSERT_NE(context.abort_word, nullptr);
    EXPECT_EQ(*context.abort_word, 0u);
    ASSERT_EQ(call.tensors.size(), 1u);
    const DLTensor& dl = call.tensors[0];
    EXPECT_NE(dl.data, nullptr);
    EXPECT_EQ(dl.ndim, 2);
    EXPECT_EQ(dl.shape[0], 2);
    EXPECT_EQ(dl.shape[1], 5);
    EXPECT_EQ(dl.strides[0], 5);
    EXPECT_EQ(dl.strides[1], 1);
    EXPECT_EQ(dl.dtype.bits, 16);
    if (call.scalars[0].value.i64 == context.rank) good.fetch_add(1);
  });
  const Program program("look", [](Orchestrator& orch, const Arguments& args) {
    for (int rank = 0; rank < 3; ++rank) {
      orch.submit("test.look", rank, TaskArgs{}.no_dep(args[0].shard_on(rank)).scalar(rank));
    }
  });
  mesh.submit(program, {tensor}).wait();
  EXPECT_EQ(good.load(), 3);
}

TEST(MeshRun, SixtyFourRanksComplete) {
  Mesh mesh = open("cpu:0-63");
  const auto count = add_counter(mesh);
  for (int round = 0; round < 20; ++round) mesh.submit(launch_everywhere("test.count"), {}).wait();
  EXPECT_EQ(count->load(), 64 * 20);
  mesh.submit(launch_on("test.count", {0, 31, 32, 63}), {}).wait();
  EXPECT_EQ(count->load(), 64 * 20 + 4);
}

TEST(MeshRun, DelayedDevicesBesideOthers) {
  Mesh mesh = open("null:0-7?delay_us=50,cpu:0-1");
  const auto count = add_counter(mesh);
  std::vector<rankcast::Run> runs;
  for (int round = 0; round < 30; ++round) {
    runs.push_back(mesh.submit(launch_everywhere("test.count"), {}));
    if (runs.size() == 8) {
      for (const rankcast::Run& run : runs) run.wait();
      runs.clear();
    }
  }
  for (const rankcast::Run& run : runs) run.wait();
  EXPECT_EQ(count->load(), 2 * 30) << "null devices run no kernel";
  const std::vector<float> up = counting(20, 1.0f);
  const StackedDeviceTensor stack = mesh.alloc_stacked(HostView(up.data(), {10, 2}));
  EXPECT_EQ(values_of(mesh, stack), up) << "but they copy";
}

}  // namespace
}  // namespace rankcast::test
