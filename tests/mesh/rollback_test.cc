// Every fault point in turn: the failure is told and nothing is left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "mesh/fault_walk.h"
#include "mesh/support.h"

namespace rankcast::test {
namespace {

MeshOptions four_ranks() {
  MeshOptions options;
  options.devices = "cpu:0-3";
  options.max_in_flight = 2;
  return options;
}

class MeshRollback : public ::testing::Test {
 protected:
  FaultScope scope_;
};

TEST_F(MeshRollback, OpenLeavesNothingBehind) {
  const auto open_and_close = [] { Mesh::open(four_ranks()).close(); };
  const std::vector<std::string> points = points_of(open_and_close);
  for (const char* expected : {"base.segment_reserve", "base.eventfd", "mesh.start_keeper",
                               "link.start_thread", "rank.start"}) {
    EXPECT_NE(std::find(points.begin(), points.end(), expected), points.end()) << expected;
  }
  for (const std::string& point : points) {
    const std::size_t threads = thread_count();
    const std::size_t descriptors = descriptor_count();
    const int failures = walk(point, open_and_close, [&](const Error& error) {
      EXPECT_TRUE(eventually([&] { return thread_count() == threads; })) << error.what();
      EXPECT_EQ(descriptor_count(), descriptors) << error.what();
      if (point == "rank.start" || point == "link.start_thread") {
        ASSERT_TRUE(error.rank()) << error.what();
        EXPECT_THAT(error.what(), ::testing::HasSubstr("rank " + std::to_string(*error.rank())));
      }
    });
    const bool each_rank = point == "rank.start" || point == "link.start_thread";
    // One eventfd tells the keeper that it is wanted, one that a rank has ended.
    EXPECT_EQ(failures, each_rank ? 4 : point == "base.eventfd" ? 2 : 1) << point;
  }
}

/// Kilobytes of address space of this process.
std::int64_t address_space_kb() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::int64_t kb = 0;
  while (status >> word) {
    if (word == "VmSize:") {
      status >> kb;
      break;
    }
  }
  return kb;
}

TEST_F(MeshRollback, AFailedOpenKeepsNoMemory) {
#ifdef RANKCAST_TEST_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory grows with every mapping";
#endif
  MeshOptions options = four_ranks();
  options.devices = "cpu:0-7";
  options.max_in_flight = 1024;  // 5 MiB of control memory a mesh
  const auto fail = [&] {
    base::arm_fault_point("rank.start", 5);
    expect_error(ErrorCode::internal, {"rank"}, [&] { Mesh::open(options); });
  };
  for (int i = 0; i < 5; ++i) fail();
  const std::int64_t before = address_space_kb();
  constexpr int kRounds = 60;
  for (int i = 0; i < kRounds; ++i) fail();
  // Allocators and the caches of thread stacks come and go by less than half of what would have
  // been lost.
  EXPECT_LT(address_space_kb() - before, kRounds * 5 * 1024 / 2);
}

class MeshRollbackOpen : public MeshRollback {
 protected:
  struct Footprint {
    MeshStats stats;
    std::vector<std::uint64_t> bytes_of_ranks;
  };
  Footprint footprint() const {
    Footprint result{mesh_.stats(), {}};
    for (const RankInfo& info : mesh_.ranks()) result.bytes_of_ranks.push_back(info.memory_bytes);
    return result;
  }
  void expect_unchanged(const Footprint& before) const {
    const Footprint after = footprint();
    EXPECT_EQ(after.stats.live_buffers, before.stats.live_buffers);
    EXPECT_EQ(after.stats.live_bytes, before.stats.live_bytes);
    EXPECT_EQ(after.stats.deferred_bytes, before.stats.deferred_bytes);
    EXPECT_EQ(after.stats.runs_in_flight, 0u);
    EXPECT_EQ(after.stats.submits, before.stats.submits);
    EXPECT_EQ(after.bytes_of_ranks, before.bytes_of_ranks);
  }

  /// All of the mesh still works.
  void expect_works() {
    const std::vector<float> up = counting(8, 1.0f);
    const StackedDeviceTensor stack = mesh_.alloc_stacked(HostView(up.data(), {4, 2}));
    const int before = count_->load();
    mesh_.submit(launch_everywhere("test.count"), {}).wait();
    EXPECT_EQ(count_->load(), before + 4);
    EXPECT_EQ(values_of(mesh_, stack), up);
    mesh_.free(stack);
  }

  Mesh mesh_ = Mesh::open(four_ranks());
  std::shared_ptr<std::atomic<int>> count_ = add_counter(mesh_);
};

TEST_F(MeshRollbackOpen, AllocStackedGivesAllOfItBack) {
  // A size of its own each time, so that the heap has to grow as it did at first.
  const auto alloc = [&] {
    mesh_.free(mesh_.alloc_stacked({4, std::int64_t{1} << 20}, DType::u8));
  };
  const std::vector<std::string> points = points_of(alloc);
  EXPECT_NE(std::find(points.begin(), points.end(), "mesh.alloc_block"), points.end());
  EXPECT_NE(std::find(points.begin(), points.end(), "mesh.alloc_slot"), points.end());
  for (const std::string& point : points) {
    const Footprint before = footprint();
    walk(point, alloc, [&](const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      ASSERT_TRUE(error.rank()) << error.what();
      EXPECT_THAT(error.what(), ::testing::HasSubstr("rank " + std::to_string(*error.rank())));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("1048576 bytes"));
      expect_unchanged(before);
    });
  }
  EXPECT_EQ(walk("mesh.alloc_block", alloc, [](const Error&) {}), 4)
      << "each of its shards can be what fails";
  EXPECT_EQ(walk("mesh.alloc_slot", alloc, [](const Error&) {}), 4);
  expect_works();
}

TEST_F(MeshRollbackOpen, AFirstAllocationWithoutASegment) {
  const Footprint before = footprint();
  base::arm_fault_point("base.segment_reserve", 2);
  const auto error = error_of([&] { mesh_.alloc_stacked({4, 100}, DType::u8); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::out_of_memory);
  EXPECT_EQ(error->rank(), 2);
  expect_unchanged(before);
  base::arm_fault_point("base.table_chunk", 1);  // ranks 0 and 1 have got as far
  const auto table = error_of([&] { mesh_.alloc_stacked({4, 100}, DType::u8); });
  ASSERT_TRUE(table);
  EXPECT_EQ(table->code(), ErrorCode::out_of_memory);
  EXPECT_EQ(table->rank(), 3);
  expect_unchanged(before);
  expect_works();
}

TEST_F(MeshRollbackOpen, AnUploadThatFailsFreesWhatWasAllocated) {
  const std::vector<float> up = counting(8, 1.0f);
  const auto alloc = [&] { mesh_.free(mesh_.alloc_stacked(HostView(up.data(), {4, 2}))); };
  for (const std::string& point : points_of(alloc)) {
    const Footprint before = footprint();
    walk(point, alloc, [&](const Error&) { expect_unchanged(before); });
  }
  expect_works();
}

TEST_F(MeshRollbackOpen, ASubmitThatFailsPublishesNothing) {
  const auto submit = [&] { mesh_.submit(launch_everywhere("test.count"), {}).wait(); };
  std::vector<std::string> points = points_of(submit);
  EXPECT_NE(std::find(points.begin(), points.end(), "mesh.reserve_frame"), points.end());
  for (const std::string& point : points) {
    const Footprint before = footprint();
    walk(point, submit, [&](const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      EXPECT_EQ(mesh_.stats().submits, before.stats.submits);
      EXPECT_EQ(mesh_.stats().runs_in_flight, 0u);
    });
    EXPECT_EQ(mesh_.stats().submits, before.stats.submits + 1)
        << "the last pass alone was published";
  }
  expect_works();
}

TEST_F(MeshRollbackOpen, TheFirstFrameOfASlotWithoutMemory) {
  // Frames, outcomes and side blocks each take a segment when they are first needed.
  std::vector<DeviceTensor> changes;
  for (int rank = 0; rank < 4; ++rank) changes.push_back(mesh_.alloc(rank, {4}, DType::u8));
  const std::uint64_t submits = mesh_.stats().submits;
  const int failures = walk(
      "base.segment_reserve", [&] { mesh_.submit(launch_everywhere("test.count"), {}).wait(); },
      [&](const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
        EXPECT_EQ(mesh_.stats().submits, submits);
        EXPECT_EQ(mesh_.stats().runs_in_flight, 0u);
        EXPECT_EQ(count_->load(), 0) << "all ranks or none";
      });
  EXPECT_GE(failures, 2);
  expect_works();
  for (const DeviceTensor& tensor : changes) mesh_.free(tensor);
}

TEST_F(MeshRollback, CloseReachesNoPointThatFails) {
  auto mesh = std::make_unique<Mesh>(Mesh::open(four_ranks()));
  mesh->alloc(0, {4}, DType::u8);
  EXPECT_EQ(points_of([&] { mesh->close(); }), std::vector<std::string>{})
      << "close asks for nothing that it may not get";
}

}  // namespace
}  // namespace rankcast::test
