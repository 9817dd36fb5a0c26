// The end of a mesh on every link: inside a program, with odd budgets, while others wait, with
// ranks that are lost, with leaks, and again and again. tests: src/mesh/close.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <limits>

#include "mesh/probe_gates.h"
#include "mesh/support.h"

namespace rankcast::test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Seconds = std::chrono::duration<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class MeshLifecycle : public OnEachLink {
 protected:
  Mesh open(int max_in_flight = 4, bool with_probe = true) const {
    MeshOptions options;
    options.devices = "cpu:0-2";
    options.link = GetParam();
    options.max_in_flight = max_in_flight;
    Mesh mesh = Mesh::open(options);
    if (with_probe) mesh.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
    return mesh;
  }

  ProbeGates gates_;
};

TEST_P(MeshLifecycle, AProgramCannotCloseItsMesh) {
  Mesh mesh = open();
  int refused = 0;
  const Program program("closes", [&](Orchestrator& orch, const Arguments&) {
    for (const bool with_budget : {false, true}) {
      expect_error(ErrorCode::invalid_argument, {"close", "inside an orchestration function"},
                   [&] { with_budget ? mesh.close(Seconds(1)) : mesh.close(); });
      ++refused;
    }
    orch.submit("probe.sleeps", 0, TaskArgs{}.scalar(0));
  });
  mesh.submit(program, {}).wait();
  EXPECT_EQ(refused, 2);
  Mesh other = open(4, false);
  mesh.submit(Program("closes_another", [&](Orchestrator&, const Arguments&) { other.close(); }),
              {})
      .wait();
  expect_error(ErrorCode::closed, {"closed"}, [&] { other.stats(); });
  EXPECT_EQ(mesh.close().drained_runs, 0u) << "nothing was closed by the program";
}

TEST_P(MeshLifecycle, ABudgetThatIsNoneLeavesTheMeshOpen) {
  Mesh mesh = open();
  for (const double bad : {-1.0, -1e-12, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    expect_error(ErrorCode::invalid_argument, {"close: the budget is ", "0 or more"},
                 [&] { mesh.close(Seconds(bad)); });
  }
  mesh.submit(launch_on("probe.sleeps", {}), {}).wait();
  EXPECT_EQ(mesh.stats().runs_in_flight, 0u);
  mesh.close(Seconds(kInfinity));
}

TEST_P(MeshLifecycle, ABudgetOfNothingLooksOnce) {
  Mesh mesh = open();
  const rankcast::Run run = mesh.submit(ProbeGates::program(0, {1}), {});
  ASSERT_TRUE(gates_.entered(0));
  for (int i = 0; i < 3; ++i) {
    expect_error(ErrorCode::deadline_exceeded,
                 {"run " + std::to_string(run.dispatch_id()) + " on rank 1"},
                 [&] { mesh.close(Seconds(0)); });
  }
  gates_.open(0);
  EXPECT_EQ(mesh.close(Seconds(kInfinity)).drained_runs, 1u);
  run.wait();
}

TEST_P(MeshLifecycle, WaitersStayThroughTriesAndAreAnswered) {
  Mesh mesh = open();
  const rankcast::Run run = mesh.submit(ProbeGates::program(0, {0, 1, 2}), {});
  ASSERT_TRUE(gates_.entered(0));
  std::atomic<int> answered{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&, i] {
      if (i == 0) {
        run.wait();
      } else {
        EXPECT_TRUE(run.wait_for(kHangLimit));
      }
      answered.fetch_add(1);
    });
  }
  expect_error(ErrorCode::deadline_exceeded, {"close"}, [&] { mesh.close(milliseconds(5)); });
  EXPECT_EQ(answered.load(), 0);
  std::thread opener([&] { gates_.open(0); });
  mesh.close(kHangLimit);
  opener.join();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(answered.load(), 3);
  EXPECT_EQ(run.report().ranks.size(), 3u) << "its report outlives the mesh";
}

TEST_P(MeshLifecycle, CallsThatWaitForRoomEndWithClosed) {
  Mesh mesh = open(1);
  const DeviceTensor tensor = mesh.alloc(2, {4}, DType::f32);
  const rankcast::Run blocking = mesh.submit(ProbeGates::program(0, {0}), {});
  ASSERT_TRUE(gates_.entered(0));
  std::atomic<int> orchestrated{0};
  std::vector<float> host(4);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    expect_error(ErrorCode::closed, {"closed"}, [&] {
      mesh.submit(Program("late",
                          [&](Orchestrator& orch, const Arguments&) {
                            orch.submit("probe.sleeps", 1, TaskArgs{}.scalar(0));
                            orchestrated.fetch_add(1);
                          }),
                  {});
    });
  });
  threads.emplace_back([&] {
    expect_error(ErrorCode::closed, {"closed"},
                 [&] { mesh.upload(tensor, HostView(host.data(), {4})); });
  });
  EXPECT_TRUE(eventually([&] { return orchestrated.load() == 1; }));
  expect_error(ErrorCode::deadline_exceeded, {}, [&] { mesh.close(milliseconds(1)); });
  for (std::thread& thread : threads) thread.join();
  gates_.open(0);
  EXPECT_EQ(mesh.close().drained_runs, 1u);
}

TEST_P(MeshLifecycle, TwoThreadsCloseOneAfterATryThatTimedOut) {
  Mesh mesh = open();
  mesh.alloc(1, {4}, DType::f32);
  const rankcast::Run run = mesh.submit(ProbeGates::program(0, {1}), {});
  ASSERT_TRUE(gates_.entered(0));
  expect_error(ErrorCode::deadline_exceeded, {}, [&] { mesh.close(milliseconds(1)); });
  std::vector<std::thread> closers;
  std::array<CloseReport, 3> reports;
  for (CloseReport& report : reports)
    closers.emplace_back([&] { report = mesh.close(kHangLimit); });
  gates_.open(0);
  for (std::thread& closer : closers) closer.join();
  std::uint64_t leaked = 0;
  for (const CloseReport& report : reports) leaked += report.leaked_buffers;
  EXPECT_EQ(leaked, 1u) << "one of them told";
  EXPECT_EQ(mesh.close().leaked_buffers, 0u);
  expect_error(ErrorCode::closed, {"closed"}, [&] { mesh.stats(); });
}

TEST_P(MeshLifecycle, LeaksAreToldByRankTheLargestFirst) {
  Mesh mesh = open();
  std::vector<DeviceTensor> kept;
  for (int i = 1; i <= 6; ++i) kept.push_back(mesh.alloc(1, {100 * i}, DType::u8));
  const StackedDeviceTensor stack = mesh.alloc_stacked({3, 250}, DType::u8);
  mesh.free(mesh.alloc(2, {5000}, DType::u8));
  const CloseReport report = mesh.close();
  EXPECT_EQ(report.leaked_buffers, 9u);
  EXPECT_EQ(report.leaked_bytes, 2100u + 750u);
  ASSERT_EQ(report.largest_leaks.size(), 8u) << "the smallest is left out";
  std::vector<std::uint64_t> bytes;
  for (const LeakedBuffer& leak : report.largest_leaks) bytes.push_back(leak.bytes);
  EXPECT_THAT(bytes, ::testing::ElementsAre(600, 500, 400, 300, 250, 250, 250, 200));
  const LeakedBuffer& largest = report.largest_leaks.front();
  EXPECT_EQ(largest.rank, 1);
  EXPECT_EQ(largest.slot, kept.back().buffer().slot);
  EXPECT_EQ(largest.generation, kept.back().buffer().generation);
  for (const char* words : {"9 buffers with 2850 bytes were never freed", "rank 0 has 1 with 250",
                            "rank 1 has 7 with 2350", "rank 2 has 1 with 250",
                            "the largest has 600 bytes", "Mesh::free"}) {
    EXPECT_THAT(report.leak_message, HasSubstr(words));
  }
}

TEST_P(MeshLifecycle, WithoutLeaksNothingIsTold) {
  Mesh mesh = open();
  mesh.free(mesh.alloc(1, {4}, DType::u8));
  const CloseReport report = mesh.close();
  EXPECT_TRUE(report.largest_leaks.empty());
  EXPECT_EQ(report.leak_message, "");
}

/// Lines of this process's list of mappings.
std::size_t map_count() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

TEST_P(MeshLifecycle, TwoHundredMeshesLeaveNothingBehind) {
  const auto round = [&] {
    Mesh mesh = open(4, false);
    const std::vector<float> values(12, 1.0F);
    mesh.alloc_stacked(HostView(values.data(), {3, 4}));
    mesh.submit(launch_on("rankcast.sum", {}), {}).wait();
    EXPECT_EQ(mesh.close().leaked_buffers, 3u);
  };
  for (int i = 0; i < 10; ++i) round();  // allocators and the cache of thread stacks are warm
  const std::size_t threads = thread_count();
  const std::size_t descriptors = descriptor_count();
  [[maybe_unused]] const std::size_t maps = map_count();
  constexpr std::size_t kRounds = 200;
  for (std::size_t i = 0; i < kRounds; ++i) round();
  EXPECT_TRUE(eventually([&] { return thread_count() == threads; }));
  EXPECT_EQ(descriptor_count(), descriptors);
#ifndef RANKCAST_TEST_SANITIZED
  // An allocator may take a mapping or two; one a mesh would be 200.
  EXPECT_LT(map_count(), maps + kRounds / 8);
#endif
}

INSTANTIATE_TEST_SUITE_P(Links, MeshLifecycle, all_links(), name_of_link);

bool is_closed(const Mesh& mesh) {
  try {
    mesh.stats();
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::closed;
  }
}

class MeshLifecycleProcess : public ::testing::Test {
 protected:
  static void kill_rank(const Mesh& mesh, int rank) {
    ASSERT_EQ(kill(mesh.ranks()[static_cast<std::size_t>(rank)].process, SIGKILL), 0);
  }

  ProbeGates gates_;
  Mesh mesh_ = Mesh::open({.devices = "cpu:0-2", .link = "process"});
};

TEST_F(MeshLifecycleProcess, ARankThatIsLostDoesNotHoldCloseUp) {
  mesh_.alloc(0, {4}, DType::u8);
  mesh_.alloc(1, {4}, DType::u8);
  kill_rank(mesh_, 1);
  ASSERT_TRUE(eventually([&] { return mesh_.ranks()[1].lost; }));
  EXPECT_EQ(mesh_.close().leaked_buffers, 2u) << "those of the lost rank are counted too";
}

TEST_F(MeshLifecycleProcess, ARankThatDiesInTheDrainEndsIt) {
  mesh_.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
  const rankcast::Run run = mesh_.submit(ProbeGates::program(0, {1}), {});
  ASSERT_TRUE(gates_.entered(0));
  const int process = mesh_.ranks()[1].process;
  std::thread closer([&] { EXPECT_EQ(mesh_.close(kHangLimit).drained_runs, 1u); });
  EXPECT_TRUE(eventually([&] { return is_closed(mesh_); }));
  EXPECT_EQ(kill(process, SIGKILL), 0);
  closer.join();
  expect_error(ErrorCode::rank_lost, {"rank 1", "signal 9"}, [&] { run.wait(); });
}

TEST_F(MeshLifecycleProcess, AllRanksAreLost) {
  for (int rank = 0; rank < 3; ++rank) kill_rank(mesh_, rank);
  mesh_.close();
  SUCCEED() << "it returned";
}

TEST_F(MeshLifecycleProcess, AStoppedRankIsKilledWhenTheBudgetEnds) {
  const int process = mesh_.ranks()[2].process;
  ASSERT_EQ(kill(process, SIGSTOP), 0);
  mesh_.close(milliseconds(50));
  EXPECT_NE(kill(process, 0), 0) << "it is gone, and reaped";
}

}  // namespace
}  // namespace rankcast::test
