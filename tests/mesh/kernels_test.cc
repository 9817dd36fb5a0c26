// Kernel libraries on a mesh: loaded by path, checked, prepared once for equal calls, released
// before they are closed.
// tests: src/program/kernel_catalog.h
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::Contains;

Mesh open() {
  MeshOptions options;
  options.devices = "cpu:0-2";
  Mesh mesh = Mesh::open(options);
  mesh.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
  return mesh;
}

/// Preparations and releases of the probe so far, in this process.
std::pair<std::int64_t, std::int64_t> counts() {
  Mesh mesh = open();
  const DeviceTensor out = mesh.alloc(0, {2}, DType::i64);
  mesh.submit(Program("counts",
                      [](Orchestrator& orch, const Arguments& args) {
                        orch.submit("probe.counts", 0, TaskArgs{}.out(args[0]));
                      }),
              {out})
      .wait();
  const std::vector<std::int64_t> values = values_of<std::int64_t>(mesh, out);
  mesh.free(out);
  return {values[0], values[1]};
}

/// Keeps the library loaded, and with it its counts.
class MeshKernels : public ::testing::Test {
 protected:
  Mesh holder_ = open();
};

TEST_F(MeshKernels, AreThereOnceTheirLibraryIsLoaded) {
  EXPECT_THAT(holder_.kernels(), Contains("probe.prepared"));
  expect_error(ErrorCode::invalid_argument, {"probe."},
               [&] { holder_.load_kernels(RANKCAST_TEST_PROBE_KERNELS); });
}

TEST_F(MeshKernels, ArePreparedOnceForEqualKernelsShapesDtypesAndStrides) {
  const auto before = counts();
  {
    Mesh mesh = open();
    const StackedDeviceTensor four = mesh.alloc_stacked({3, 4}, DType::i64);
    const StackedDeviceTensor five = mesh.alloc_stacked({3, 5}, DType::i64);
    const auto submit = [&](const StackedDeviceTensor& out, int position) {
      return mesh.submit(Program("prepared",
                                 [position](Orchestrator& orch, const Arguments& args) {
                                   for (int rank = 0; rank < 3; ++rank) {
                                     orch.submit(
                                         "probe.prepared", rank,
                                         TaskArgs{}.out(args[0].shard_on(rank)).scalar(position));
                                   }
                                 }),
                         {out});
    };
    for (int position = 0; position < 20; ++position) submit(four, position).wait();
    // Each thread lays out in an orchestration of its own.
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&] {
        for (int position = 0; position < 20; ++position) submit(four, position).wait();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(counts().first, before.first + 3) << "once a rank, whatever the scalar";
    submit(five, 0).wait();
    EXPECT_EQ(counts().first, before.first + 6);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(values_of<std::int64_t>(mesh, four[rank])[0], 4);
      EXPECT_EQ(values_of<std::int64_t>(mesh, five[rank])[0], 5);
    }
    EXPECT_EQ(counts().second, before.second);
  }
  EXPECT_EQ(counts().second, before.second + 6) << "and released with their ranks";
}

TEST_F(MeshKernels, ARefusalToPrepareFailsTheTask) {
  const rankcast::Run run = holder_.submit(launch_on("probe.refuses", {1}), {});
  const auto error = error_of([&] { run.wait(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::task_failed);
  EXPECT_EQ(error->rank(), 1);
  EXPECT_THAT(error->what(), ::testing::HasSubstr("'probe.refuses'"));
  EXPECT_THAT(error->what(), ::testing::HasSubstr("cannot be prepared here"));
}

TEST_F(MeshKernels, ACheckThatRefusesStopsTheSubmit) {
  const DeviceTensor narrow = holder_.alloc(2, {4}, DType::f32);
  const auto error = error_of([&] {
    holder_.submit(Program("narrow",
                           [](Orchestrator& orch, const Arguments& args) {
                             orch.submit("probe.prepared", 2, TaskArgs{}.out(args[0]));
                           }),
                   {narrow});
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error->argument(), 0);
  EXPECT_EQ(error->rank(), 2);
  EXPECT_THAT(error->what(), ::testing::HasSubstr("64-bit elements"));
}

}  // namespace
}  // namespace rankcast::test
