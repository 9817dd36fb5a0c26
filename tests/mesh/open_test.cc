// tests: src/mesh/core.cc
// tests: src/mesh/mesh.cc
//
// Opening a mesh: what is accepted, what is refused and why, and what a handle answers afterwards.
// tests: src/mesh/mesh.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

MeshOptions options_of(std::string devices) {
  MeshOptions options;
  options.devices = std::move(devices);
  return options;
}

/// `options` are refused with these words, and nothing of a mesh is left.
void expect_refused(const MeshOptions& options, std::initializer_list<std::string> words,
                    ErrorCode code = ErrorCode::invalid_argument) {
  const std::size_t threads = thread_count();
  const std::size_t descriptors = descriptor_count();
  expect_error(code, words, [&] { Mesh::open(options); });
  EXPECT_TRUE(eventually([&] { return thread_count() == threads; }));
  EXPECT_EQ(descriptor_count(), descriptors);
}

TEST(MeshOpen, TheDefaultIsOneCpu) {
  Mesh mesh = Mesh::open();
  EXPECT_EQ(mesh.world_size(), 1);
  ASSERT_EQ(mesh.ranks().size(), 1u);
  EXPECT_EQ(mesh.ranks()[0].device, "cpu:0");
  EXPECT_EQ(mesh.ranks()[0].memory_bytes, 0u);
  EXPECT_FALSE(mesh.ranks()[0].description.empty());
  const MeshStats stats = mesh.stats();
  EXPECT_EQ(stats.submits + stats.transfers + stats.live_buffers + stats.runs_in_flight, 0u);
}

TEST(MeshOpen, RanksComeInTheOrderOfTheString) {
  Mesh mesh = Mesh::open(options_of("cpu:3,1,null:0-1?delay_us=50,cpu:0"));
  ASSERT_EQ(mesh.world_size(), 5);
  std::vector<std::string> devices;
  for (const RankInfo& info : mesh.ranks()) {
    EXPECT_EQ(info.rank, static_cast<int>(devices.size()));
    devices.push_back(info.device);
  }
  EXPECT_EQ(devices, (std::vector<std::string>{"cpu:3", "cpu:1", "null:0", "null:1", "cpu:0"}));
}

TEST(MeshOpen, RefusesDeviceStringsByTheirFault) {
  expect_refused(options_of(""), {"device"});
  expect_refused(options_of("cpu:"), {"cpu:"});
  expect_refused(options_of("cpu:0,,1"), {"cpu:0,,1", "column"});
  expect_refused(options_of("cpu:0-7,cpu:3"), {"cpu:3"});
  expect_refused(options_of("cpu:7-0"), {"7"});
  expect_refused(options_of("gpu:0"), {"gpu", "cpu", "null"});
  expect_refused(options_of("cpu:0?colour=red"), {"cpu:0", "colour"});
  expect_refused(options_of("null:0?delay_us=soon"), {"null:0", "delay_us", "soon"});
  expect_refused(options_of("null:0?delay_us=1&delay_us=2"), {"delay_us"});
  expect_refused(options_of("cpu:0-99999999"), {"1024"});
}

TEST(MeshOpen, RefusesALinkNobodyHas) {
  MeshOptions options;
  options.link = "pigeon";
  expect_refused(options, {"pigeon", "thread"});
}

TEST(MeshOpen, RefusesTimesThatAreNone) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -1.0, -std::numeric_limits<double>::infinity()}) {
    MeshOptions options;
    options.startup_timeout = std::chrono::duration<double>(bad);
    expect_refused(options, {"startup_timeout"});
    options = {};
    options.close_timeout = std::chrono::duration<double>(bad);
    expect_refused(options, {"close_timeout"});
    options = {};
    options.spin = std::chrono::duration<double, std::micro>(bad);
    expect_refused(options, {"spin"});
  }
  MeshOptions options;
  options.spin = std::chrono::seconds(2);
  expect_refused(options, {"spin", "1000000"});
}

TEST(MeshOpen, RefusesLimitsThatAreNone) {
  for (const int bad :
       {0, -1, 1025, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    MeshOptions options;
    options.max_in_flight = bad;
    expect_refused(options, {"max_in_flight", std::to_string(bad), "1 to 1024"});
  }
}

TEST(MeshOpen, TakesTheEndsOfItsLimits) {
  for (const int good : {1, 1024}) {
    MeshOptions options = options_of("cpu:0-1");
    options.max_in_flight = good;
    options.startup_timeout =
        std::chrono::duration<double>(std::numeric_limits<double>::infinity());
    options.spin = std::chrono::microseconds(0);
    Mesh mesh = Mesh::open(options);
    const auto count = add_counter(mesh);
    for (int i = 0; i < 3; ++i) mesh.submit(launch_everywhere("test.count"), {}).wait();
    EXPECT_EQ(count->load(), 6);
  }
}

TEST(MeshOpen, KnowsItsKernels) {
  Mesh mesh = Mesh::open();
  mesh.register_kernel("test.mine", [](const KernelCall&) {});
  const std::vector<std::string> kernels = mesh.kernels();
  for (const char* name :
       {"rankcast.fill", "rankcast.copy", "rankcast.sum", "rankcast.checksum", "test.mine"}) {
    EXPECT_THAT(kernels, Contains(name));
  }
  EXPECT_TRUE(std::is_sorted(kernels.begin(), kernels.end()));

  expect_error(ErrorCode::invalid_argument, {"test.mine"},
               [&] { mesh.register_kernel("test.mine", [](const KernelCall&) {}); });
  expect_error(ErrorCode::invalid_argument, {"rankcast.sum"},
               [&] { mesh.register_kernel("rankcast.sum", [](const KernelCall&) {}); });
  expect_error(ErrorCode::invalid_argument, {"No Name"},
               [&] { mesh.register_kernel("No Name", [](const KernelCall&) {}); });
  expect_error(ErrorCode::invalid_argument, {"test.empty"},
               [&] { mesh.register_kernel("test.empty", {}); });
  expect_error(ErrorCode::invalid_argument, {"no/such/file.so"},
               [&] { mesh.load_kernels("no/such/file.so"); });
  expect_error(ErrorCode::invalid_argument, {"taken"},
               [&] { mesh.load_kernels(RANKCAST_TEST_KERNELS); });
  EXPECT_EQ(mesh.kernels(), kernels);
}

TEST(MeshOpen, TwoMeshesHaveTensorsOfTheirOwn) {
  Mesh first = Mesh::open();
  Mesh second = Mesh::open();
  const DeviceTensor a = first.alloc(0, {4}, DType::f32);
  const DeviceTensor b = second.alloc(0, {4}, DType::f32);
  EXPECT_FALSE(a.buffer() == b.buffer());
  EXPECT_NE(a.buffer().mesh, b.buffer().mesh);
}

/// Every function of a mesh that cannot be used answers `closed`, but for close.
void expect_closed(Mesh& mesh, const DeviceTensor& tensor, const StackedDeviceTensor& stack,
                   const std::string& word) {
  float value = 0;
  std::vector<float> values(8);
  const HostView view(&value, {1});
  const auto closed = [&](auto call) { expect_error(ErrorCode::closed, {word}, call); };
  closed([&] { mesh.world_size(); });
  closed([&] { mesh.ranks(); });
  closed([&] { mesh.stats(); });
  closed([&] { mesh.kernels(); });
  closed([&] { mesh.alloc(0, {1}, DType::f32); });
  closed([&] { mesh.alloc(0, view); });
  closed([&] { mesh.alloc_stacked({1, 1}, DType::f32); });
  closed([&] { mesh.alloc_stacked(HostView(&value, {1, 1})); });
  closed([&] { mesh.alloc_replicated(view); });
  closed([&] { mesh.upload(tensor, view); });
  closed([&] { mesh.upload(stack, HostView(values.data(), {2, 4})); });
  closed([&] { mesh.download(tensor, MutableHostView(&value, {1})); });
  closed([&] { mesh.download(stack, MutableHostView(values.data(), {2, 4})); });
  closed([&] { mesh.free(tensor); });
  closed([&] { mesh.free(stack); });
  closed([&] { mesh.load_kernels(RANKCAST_TEST_KERNELS); });
  closed([&] { mesh.register_kernel("test.late", [](const KernelCall&) {}); });
  closed([&] { mesh.submit(launch_on("rankcast.fill", {0}), {}); });
  const CloseReport again = mesh.close();
  EXPECT_EQ(again.drained_runs + again.leaked_buffers + again.leaked_bytes, 0u);
}

TEST(MeshOpen, AClosedMeshSaysSo) {
  Mesh mesh = Mesh::open(options_of("cpu:0-1"));
  const DeviceTensor tensor = mesh.alloc(0, {1}, DType::f32);
  const StackedDeviceTensor stack = mesh.alloc_stacked({2, 4}, DType::f32);
  mesh.free(tensor);
  mesh.free(stack);
  mesh.close();
  expect_closed(mesh, tensor, stack, "the mesh is closed");
}

TEST(MeshOpen, AMeshThatWasMovedFromSaysSo) {
  Mesh mesh = Mesh::open(options_of("cpu:0-1"));
  const DeviceTensor tensor = mesh.alloc(0, {1}, DType::f32);
  const StackedDeviceTensor stack = mesh.alloc_stacked({2, 4}, DType::f32);
  Mesh moved(std::move(mesh));
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested
  expect_closed(mesh, tensor, stack, "was moved from");
  EXPECT_EQ(moved.stats().live_buffers, 3u);
  mesh = std::move(moved);
  EXPECT_EQ(mesh.stats().live_buffers, 3u);
  EXPECT_EQ(mesh.close().leaked_buffers, 3u);
}

}  // namespace
}  // namespace rankcast::test
