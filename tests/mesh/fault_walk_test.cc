// Every fault point that open, alloc_stacked, submit, load_kernels, restart_rank and close reach,
// made to fail in turn, on every link: the failure is told, the next try works, and bytes, threads,
// descriptors, processes and mappings are as they were.
// tests: src/base/segment.cc
#include "mesh/fault_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr int kRanks = 3;

/// Processes that this one has started and not reaped.
std::size_t child_count() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (int child = 0; children >> child;) ++count;
  }
  return count;
}

/// Mappings of memory that a mesh makes: shared ones, and private ones of its size.
std::size_t shared_map_count() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:rankcast") != std::string::npos) ++count;
  }
  return count;
}

struct Belongings {
  std::size_t threads = thread_count();
  std::size_t descriptors = descriptor_count();
  std::size_t children = child_count();
  std::size_t shared_maps = shared_map_count();
};

void expect_as_before(const Belongings& before) {
  EXPECT_TRUE(eventually([&] { return thread_count() == before.threads; }));
  EXPECT_EQ(descriptor_count(), before.descriptors);
  EXPECT_EQ(child_count(), before.children);
  EXPECT_EQ(shared_map_count(), before.shared_maps);
}

class MeshFaults : public OnEachLink {
 protected:
  Mesh open() const {
    MeshOptions options;
    options.devices = "cpu:0-2";
    options.link = GetParam();
    options.max_in_flight = 2;
    return Mesh::open(options);
  }
  bool on_threads() const { return GetParam() == "thread"; }

  FaultScope scope_;
};

TEST_P(MeshFaults, OpenLeavesNothingBehind) {
  const auto open_and_close = [&] { open().close(); };
  open_and_close();
  const std::vector<std::string> points = points_of(open_and_close);
  EXPECT_THAT(points, IsSupersetOf({"base.segment_reserve", "base.eventfd", "mesh.start_keeper"}));
  if (on_threads()) {
    EXPECT_THAT(points, IsSupersetOf({"base.map_private", "link.start_thread", "rank.start"}));
  } else {
    EXPECT_THAT(points,
                IsSupersetOf({"base.memfd", "base.memfd_size", "base.memfd_seal", "base.map_shared",
                              "base.pidfd", "base.epoll", "base.epoll_add", "base.socket_pair",
                              "base.output_pipe", "base.dup", "base.spawn", "base.send_message",
                              "link.start_process"}));
  }
  for (const std::string& point : points) {
    const Belongings before;
    EXPECT_GE(walk(point, open_and_close, [&](const Error&) { expect_as_before(before); }), 1)
        << point;
    expect_as_before(before);
  }
}

class OpenMeshFaults : public MeshFaults {
 protected:
  struct Bytes {
    std::uint64_t buffers;
    std::uint64_t live;
    std::uint64_t deferred;
    std::uint64_t in_flight;
    std::vector<std::uint64_t> ranks;
    friend bool operator==(const Bytes&, const Bytes&) = default;
  };
  Bytes bytes() const {
    const MeshStats stats = mesh_.stats();
    Bytes result{
        stats.live_buffers, stats.live_bytes, stats.deferred_bytes, stats.runs_in_flight, {}};
    for (const RankInfo& info : mesh_.ranks()) result.ranks.push_back(info.memory_bytes);
    return result;
  }

  /// Walks every point that `act` reaches when it is done for the first time on a mesh, each on a
  /// mesh of its own; `wanted` are among them.
  template <class Act>
  void walk_all(Act act, const std::vector<std::string>& wanted) {
    const std::vector<std::string> points = points_of([&] { act(mesh_); });
    EXPECT_THAT(points, ::testing::IsSupersetOf(wanted));
    for (const std::string& point : points) {
      mesh_ = open();
      if (point == kMadeUpFor) {
        base::arm_fault_point(point);
        act(mesh_);
        EXPECT_EQ(base::armed_fault_points(), 0);
        expect_works();
        continue;
      }
      const Bytes empty = bytes();
      Belongings before;
      const int failures = walk(
          point, [&] { act(mesh_); },
          [&](const Error& error) {
            EXPECT_NE(std::string(error.what()), "");
            EXPECT_EQ(bytes(), empty) << error.what();
            EXPECT_EQ(thread_count(), before.threads) << error.what();
            EXPECT_EQ(child_count(), before.children) << error.what();
            // What one try has made for the next, a segment at a time, stays until close: nothing
            // of the part that failed.
            EXPECT_EQ(descriptor_count() - before.descriptors,
                      on_threads() ? 0 : shared_map_count() - before.shared_maps)
                << error.what();
          });
      EXPECT_GE(failures, 1) << point;
      expect_works();
    }
  }

  void expect_works() {
    const std::vector<float> up = counting(kRanks * 2, 1.0f);
    const StackedDeviceTensor stack = mesh_.alloc_stacked(HostView(up.data(), {kRanks, 2}));
    fill(mesh_, stack);
    EXPECT_EQ(values_of(mesh_, stack), std::vector<float>(kRanks * 2, 7.0f));
    mesh_.free(stack);
  }

  static void fill(Mesh& mesh, const StackedDeviceTensor& stack) {
    const Program program("fill", [](Orchestrator& orch, const Arguments& args) {
      for (int rank = 0; rank < kRanks; ++rank) {
        orch.submit("rankcast.fill", rank, TaskArgs{}.out(args[0].shard_on(rank)).scalar(7.0));
      }
    });
    mesh.submit(program, {stack}).wait();
  }

  std::vector<std::string> points_of_a_segment() const {
    if (on_threads()) return {"base.segment_reserve", "base.map_private"};
    return {"base.segment_reserve", "base.memfd",      "base.memfd_size",
            "base.memfd_seal",      "base.map_shared", "base.send_message"};
  }

  Mesh mesh_ = open();
};

TEST_P(OpenMeshFaults, AllocStackedGivesAllOfItBack) {
  std::vector<std::string> wanted = points_of_a_segment();
  for (const char* point : {"mesh.alloc_block", "mesh.alloc_slot", "base.table_chunk"}) {
    wanted.emplace_back(point);
  }
  walk_all([](Mesh& mesh) { mesh.free(mesh.alloc_stacked({kRanks, 100}, DType::u8)); }, wanted);
}

TEST_P(OpenMeshFaults, AnUploadThatFailsFreesWhatWasAllocated) {
  const std::vector<float> up = counting(kRanks * 2, 1.0f);
  std::vector<std::string> wanted = points_of_a_segment();
  wanted.emplace_back("mesh.reserve_frame");
  walk_all([&](Mesh& mesh) { mesh.free(mesh.alloc_stacked(HostView(up.data(), {kRanks, 2}))); },
           wanted);
}

TEST_P(OpenMeshFaults, ASubmitReachesAllRanksOrNone) {
  std::vector<std::string> wanted = points_of_a_segment();
  wanted.emplace_back("mesh.reserve_frame");
  walk_all(
      [](Mesh& mesh) {
        const StackedDeviceTensor stack = mesh.alloc_stacked({kRanks, 2}, DType::f32);
        try {
          fill(mesh, stack);
        } catch (...) {
          EXPECT_EQ(mesh.stats().submits, 0u) << "nothing was published";
          mesh.free(stack);
          throw;
        }
        mesh.free(stack);
      },
      wanted);
}

TEST_P(OpenMeshFaults, ALibraryIsOnAllRanksOrNone) {
  if (on_threads()) GTEST_SKIP() << "the ranks share the host's";
  const std::size_t kernels = mesh_.kernels().size();
  walk_all(
      [&](Mesh& mesh) {
        try {
          mesh.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
        } catch (...) {
          EXPECT_EQ(mesh.kernels().size(), kernels);
          throw;
        }
      },
      {});
}

TEST_P(OpenMeshFaults, ARestartThatFailsCanBeTriedAgain) {
  if (on_threads()) GTEST_SKIP() << "a thread cannot be restarted";
  const std::vector<std::string> points = points_of([&] { mesh_.restart_rank(1); });
  EXPECT_THAT(points, IsSupersetOf({"base.spawn", "base.send_message", "base.output_pipe"}));
  expect_works();  // its memory is there from now on
  const Belongings before;
  for (const std::string& point : points) {
    if (point == kMadeUpFor) {
      // The first is the greeting, and nobody makes up for that.
      base::arm_fault_point(point);
      expect_error(ErrorCode::internal, {"rank 1", "greeted"}, [&] { mesh_.restart_rank(1); });
      base::arm_fault_point(point, 1);
      mesh_.restart_rank(1);
      EXPECT_EQ(base::armed_fault_points(), 0);
      expect_works();
      continue;
    }
    walk(
        point, [&] { mesh_.restart_rank(1); },
        [&](const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("rank 1"));
          EXPECT_EQ(child_count(), before.children - 1);
          EXPECT_TRUE(mesh_.ranks()[1].lost);
        });
    expect_as_before(before);
    expect_works();
  }
}

TEST_P(OpenMeshFaults, CloseReachesNoPointThatFails) {
  mesh_.alloc(0, {4}, DType::u8);
  EXPECT_EQ(points_of([&] { mesh_.close(); }), std::vector<std::string>{})
      << "close asks for nothing that it may not get";
}

INSTANTIATE_TEST_SUITE_P(Links, MeshFaults, all_links(), name_of_link);
INSTANTIATE_TEST_SUITE_P(Links, OpenMeshFaults, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
