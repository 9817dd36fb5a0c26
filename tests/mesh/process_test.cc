// A mesh whose ranks are processes: what runs there runs here, ranks die alone, and successors take
// their places.
// tests: src/link/process.cc
// tests: src/link/process_rank.cc
// tests: src/link/process_messages.h
// tests: src/link/rank_program.cc
// tests: src/base/child_process.cc
// tests: src/base/fd.cc
// tests: src/base/own_file.cc
// tests: src/rank/hello.cc
// tests: src/mesh/rank_loss.cc
// tests: src/mesh/lost_ranks.h
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::HasSubstr;

Mesh open(const std::string& devices, int max_in_flight = 8) {
  MeshOptions options;
  options.devices = devices;
  options.link = "process";
  options.max_in_flight = max_in_flight;
  return Mesh::open(options);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

bool runs(int process) { return kill(process, 0) == 0; }

int process_of(const Mesh& mesh, int rank) {
  return mesh.ranks()[static_cast<std::size_t>(rank)].process;
}
bool lost(const Mesh& mesh, int rank) { return mesh.ranks()[static_cast<std::size_t>(rank)].lost; }

void kill_rank(const Mesh& mesh, int rank) { ASSERT_EQ(kill(process_of(mesh, rank), SIGKILL), 0); }

/// out = in1 + in2, shard by shard, on these ranks (all of the mesh's if none is given).
Program sum_on(std::vector<int> ranks = {}) {
  return Program("sum", [ranks](Orchestrator& orch, const Arguments& args) {
    const auto submit = [&](int rank) {
      orch.submit("rankcast.sum", rank,
                  TaskArgs{}
                      .in(args[0].shard_on(rank))
                      .in(args[1].shard_on(rank))
                      .out(args[2].shard_on(rank)));
    };
    if (ranks.empty()) {
      for (int rank = 0; rank < orch.world_size(); ++rank) submit(rank);
    }
    for (const int rank : ranks) submit(rank);
  });
}

/// A launch on each of these ranks that ends when its device says so.
Program launch_on(std::vector<int> ranks) {
  return Program("launch", [ranks](Orchestrator& orch, const Arguments& args) {
    for (const int rank : ranks) {
      orch.submit("rankcast.fill", rank, TaskArgs{}.out(args[0].shard_on(rank)).scalar(1.0));
    }
  });
}

class MeshProcess : public ::testing::Test {
 protected:
  void alloc(Mesh& mesh) {
    const std::int64_t ranks = mesh.world_size();
    std::vector<float> ones(static_cast<std::size_t>(ranks * 4), 1.0f);
    std::vector<float> twos(static_cast<std::size_t>(ranks * 4), 2.0f);
    arguments_ = {mesh.alloc_stacked(HostView(ones.data(), {ranks, 4})),
                  mesh.alloc_stacked(HostView(twos.data(), {ranks, 4})),
                  mesh.alloc_stacked({ranks, 4}, DType::f32)};
  }
  const StackedDeviceTensor& out() const {
    return std::get<StackedDeviceTensor>(arguments_[2].value());
  }
  void expect_sums(Mesh& mesh) {
    const auto count = static_cast<std::size_t>(mesh.world_size()) * 4;
    EXPECT_EQ(values_of(mesh, out()), std::vector<float>(count, 3.0f));
  }

  std::vector<Argument> arguments_;
};

TEST_F(MeshProcess, RunsProgramsInOtherProcesses) {
  const std::size_t descriptors = open_descriptors();
  std::vector<int> processes;
  {
    Mesh mesh = open("cpu:0-7");
    for (const RankInfo& rank : mesh.ranks()) {
      EXPECT_NE(rank.process, getpid());
      EXPECT_TRUE(runs(rank.process));
      processes.push_back(rank.process);
    }
    alloc(mesh);
    for (int round = 0; round < 20; ++round) mesh.submit(sum_on(), arguments_).wait();
    expect_sums(mesh);
    std::vector<rankcast::Run> in_flight;
    for (int i = 0; i < 30; ++i) in_flight.push_back(mesh.submit(sum_on(), arguments_));
    for (rankcast::Run& run : in_flight) run.wait();
    const CloseReport report = mesh.close();
    EXPECT_EQ(report.leaked_buffers, 24u);
  }
  for (const int process : processes) EXPECT_FALSE(runs(process));
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_F(MeshProcess, MovesMoreThanOnePieceOfStaging) {
  Mesh mesh = open("cpu:0-1");
  constexpr std::int64_t kBytes = (std::int64_t{64} << 20) + 4099;
  std::vector<std::uint8_t> sent(2 * kBytes);
  std::mt19937 random(7);
  for (std::size_t i = 0; i < sent.size(); i += 1021) sent[i] = static_cast<std::uint8_t>(random());
  const StackedDeviceTensor tensor = mesh.alloc_stacked({2, kBytes}, DType::u8);
  mesh.upload(tensor, HostView(sent.data(), {2, kBytes}));
  const std::uint64_t reserved = mesh.stats().reserved_bytes;
  std::vector<std::uint8_t> received(sent.size());
  mesh.download(tensor, MutableHostView(received.data(), {2, kBytes}));
  EXPECT_TRUE(sent == received);
  EXPECT_EQ(mesh.stats().reserved_bytes, reserved) << "staging memory is used again";
  mesh.free(tensor);
  EXPECT_EQ(mesh.stats().live_bytes, 0u);
}

TEST_F(MeshProcess, FunctionsOfThisProcessAreNoKernelsThere) {
  Mesh mesh = open("cpu:0");
  expect_error(ErrorCode::unsupported, {"register_kernel", "process", "load_kernels"},
               [&] { mesh.register_kernel("test.f", [](const KernelCall&) {}); });
}

TEST_F(MeshProcess, AFailedTaskIsToldAsOnThreads) {
  Mesh mesh = open("cpu:0-2");
  const StackedDeviceTensor wrong = mesh.alloc_stacked({3, 4}, DType::bf16);
  const auto error = error_of([&] {
    mesh.submit(Program("p",
                        [](Orchestrator& orch, const Arguments& args) {
                          orch.submit("rankcast.sum", 1,
                                      TaskArgs{}.in(args[0].shard_on(1)).out(args[0].shard_on(2)));
                        }),
                {wrong});
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::wrong_rank);
}

TEST_F(MeshProcess, AnIdleRankThatDiesIsLostAndRestarted) {
  Mesh mesh = open("cpu:0-7");
  alloc(mesh);
  mesh.submit(sum_on(), arguments_).wait();
  const std::uint64_t live = mesh.stats().live_bytes;
  kill_rank(mesh, 3);
  ASSERT_TRUE(eventually([&] { return lost(mesh, 3); }));

  const auto refused = error_of([&] { mesh.submit(sum_on(), arguments_); });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), ErrorCode::rank_lost);
  EXPECT_EQ(refused->rank(), 3);
  EXPECT_THAT(refused->what(), HasSubstr("rank 3 was killed by signal 9"));
  EXPECT_THAT(refused->what(), HasSubstr("restart_rank"));
  expect_error(ErrorCode::rank_lost, {"rank 3"}, [&] { mesh.alloc(3, {4}, DType::f32); });
  expect_error(ErrorCode::rank_lost, {"rank 3"}, [&] { mesh.alloc_stacked({8, 4}, DType::f32); });
  EXPECT_EQ(mesh.stats().live_bytes, live) << "a refused stack gives all back";
  mesh.submit(sum_on({0, 1, 2, 4, 5, 6, 7}), arguments_).wait();

  mesh.restart_rank(3);
  EXPECT_FALSE(lost(mesh, 3));
  expect_error(ErrorCode::stale_tensor, {"rank 3"}, [&] { mesh.submit(sum_on(), arguments_); });
  mesh.submit(sum_on({0, 7}), arguments_).wait();
  for (const Argument& argument : arguments_)
    mesh.free(std::get<StackedDeviceTensor>(argument.value()));
  alloc(mesh);
  mesh.submit(sum_on(), arguments_).wait();
  expect_sums(mesh);
  EXPECT_EQ(mesh.stats().live_bytes, live);
}

TEST_F(MeshProcess, ARankThatDiesInARunFailsThatRun) {
  Mesh mesh = open("cpu:0,null:0?delay_us=10000000,cpu:1");
  const StackedDeviceTensor tensor = mesh.alloc_stacked({3, 4}, DType::f32);
  rankcast::Run run = mesh.submit(launch_on({0, 1, 2}), {tensor});
  rankcast::Run behind = mesh.submit(launch_on({1}), {tensor});
  EXPECT_FALSE(run.wait_for(std::chrono::milliseconds(20)));
  kill_rank(mesh, 1);
  for (rankcast::Run* one : {&run, &behind}) {
    const auto error = error_of([&] { one->wait(); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::rank_lost);
    EXPECT_EQ(error->rank(), 1);
    EXPECT_EQ(error->dispatch_id(), one->dispatch_id());
    EXPECT_THAT(error->what(), HasSubstr("rank 1 was killed by signal 9"));
    EXPECT_THAT(error->what(),
                ::testing::ContainsRegex("its last dispatches: run 1 .1 task. "
                                         "entered [0-9.]+ [um]?s before and not left"));
  }
  const std::vector<DispatchRecord> flights = mesh.last_dispatches(1);
  ASSERT_EQ(flights.size(), 1u) << "it never came to the second";
  EXPECT_EQ(flights[0].dispatch_id, run.dispatch_id());
  EXPECT_FALSE(flights[0].done);
  EXPECT_TRUE(mesh.last_dispatches(0)[0].good);
  mesh.submit(launch_on({0, 2}), {tensor}).wait();
  mesh.restart_rank(1);
  const DeviceTensor fresh = mesh.alloc(1, {4}, DType::f32);
  EXPECT_EQ(mesh.stats().runs_in_flight, 0u);
  mesh.free(fresh);
}

TEST_F(MeshProcess, ASubmitThatWaitsForRoomEndsWhenItsRankIsLost) {
  Mesh mesh = open("null:0?delay_us=10000000", 1);
  const StackedDeviceTensor tensor = mesh.alloc_stacked({1, 4}, DType::f32);
  rankcast::Run first = mesh.submit(launch_on({0}), {tensor});
  std::atomic<bool> started{false};
  std::optional<Error> error;
  std::thread blocked([&] {
    started.store(true);
    error = error_of([&] { mesh.submit(launch_on({0}), {tensor}); });
  });
  ASSERT_TRUE(eventually([&] { return started.load(); }));
  kill_rank(mesh, 0);
  blocked.join();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rank_lost);
  EXPECT_EQ(error->rank(), 0);
}

TEST_F(MeshProcess, ARankThatLivesIsKilledAndReplaced) {
  Mesh mesh = open("cpu:0-1");
  alloc(mesh);
  const int old = process_of(mesh, 0);
  mesh.restart_rank(0);
  EXPECT_NE(process_of(mesh, 0), old);
  EXPECT_FALSE(runs(old));
  expect_error(ErrorCode::stale_tensor, {"rank 0"}, [&] { mesh.submit(sum_on(), arguments_); });
  alloc(mesh);
  mesh.submit(sum_on(), arguments_).wait();
  expect_sums(mesh);
  expect_error(ErrorCode::invalid_argument, {"rank 2"}, [&] { mesh.restart_rank(2); });
}

TEST_F(MeshProcess, OnThreadsNoRankCanBeRestarted) {
  Mesh mesh = Mesh::open({});
  EXPECT_EQ(process_of(mesh, 0), getpid());
  expect_error(ErrorCode::unsupported, {"restart_rank", "thread", "process"},
               [&] { mesh.restart_rank(0); });
}

TEST_F(MeshProcess, ClosesWithALostRank) {
  Mesh mesh = open("cpu:0-1");
  alloc(mesh);
  kill_rank(mesh, 1);
  const CloseReport report = mesh.close();
  EXPECT_EQ(report.leaked_buffers, 6u);
  expect_error(ErrorCode::closed, {}, [&] { mesh.restart_rank(1); });
}

TEST_F(MeshProcess, SixtyFourRanksRun) {
  Mesh mesh = open("cpu:0-63");
  alloc(mesh);
  for (int round = 0; round < 5; ++round) mesh.submit(sum_on(), arguments_).wait();
  expect_sums(mesh);
}

TEST_F(MeshProcess, LeavesNothingUnderAName) {
  const auto names = [] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      found.push_back(entry.path().filename().string());
    return found;
  };
  const auto before = names();
  Mesh mesh = open("cpu:0-1");
  alloc(mesh);
  EXPECT_EQ(names(), before);
}

// Ranks die at random moments of runs, restarts and idleness.
void survive_kills(int kills) {
  Mesh mesh = open("cpu:0-7");
  std::mt19937 random(20261201);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::size_t opened = 0;
  for (int i = 0; i < kills && !::testing::Test::HasFailure(); ++i) {
    const StackedDeviceTensor a = mesh.alloc_stacked({8, 16}, DType::f32);
    const StackedDeviceTensor b = mesh.alloc_stacked({8, 16}, DType::f32);
    const std::vector<Argument> arguments{a, a, b};
    std::vector<rankcast::Run> in_flight;
    const int victim = below(8);
    const int at = below(4);
    for (int k = 0; k < 4; ++k) {
      if (k == at) kill_rank(mesh, victim);
      try {
        in_flight.push_back(mesh.submit(sum_on(), arguments));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::rank_lost) << error.what();
      }
    }
    for (rankcast::Run& run : in_flight) {
      try {
        ASSERT_TRUE(run.wait_for(kHangLimit));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::rank_lost) << error.what();
        EXPECT_EQ(error.rank(), victim);
      }
    }
    in_flight.clear();
    ASSERT_TRUE(eventually([&] { return lost(mesh, victim); }));
    mesh.free(a);
    mesh.free(b);
    mesh.restart_rank(victim);
    EXPECT_TRUE(eventually([&] { return mesh.stats().deferred_bytes == 0; }));
    EXPECT_EQ(mesh.stats().live_buffers, 0u);
    EXPECT_EQ(mesh.stats().runs_in_flight, 0u);
    // Successors get segments, of which the first restarts may still add some.
    if (i == kills / 2) opened = open_descriptors();
  }
  EXPECT_EQ(open_descriptors(), opened);
}

void expect_nothing_left_after_kills(int kills) {
  const std::size_t descriptors = open_descriptors();
  survive_kills(kills);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_F(MeshProcess, TwentyRandomKillsLeaveNothingBehind) { expect_nothing_left_after_kills(20); }
TEST(ThoroughMeshProcess, TwoHundredRandomKillsLeaveNothingBehind) {
  expect_nothing_left_after_kills(200);
}

}  // namespace
}  // namespace rankcast::test
