// Uploads and downloads: every dtype, every mismatch, order with submitted work.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/fd.h"
#include "mesh/support.h"
#include "support/temp_folder.h"

namespace rankcast::test {
namespace {

class MeshTransfer : public OnEachLink {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-2";
    options.link = GetParam();
    return Mesh::open(options);
  }
  Mesh mesh_ = open();
};

TEST_P(MeshTransfer, EveryDtypeKeepsItsBytes) {
  for (int i = 1; i <= kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(dtype_name(dtype));
    const Shape shape{5, 3};
    const std::size_t bytes = shape.size_bytes(dtype);
    // Eight-byte elements, so that the memory is aligned for every dtype.
    std::vector<std::uint64_t> up(bytes / 8 + 1);
    std::vector<std::uint64_t> down(bytes / 8 + 1);
    for (std::size_t at = 0; at < bytes; ++at) {
      reinterpret_cast<unsigned char*>(up.data())[at] =
          static_cast<unsigned char>(at * 7 + static_cast<std::size_t>(i));
    }
    const DeviceTensor tensor = mesh_.alloc(i % 3, HostView(up.data(), dtype, shape));
    EXPECT_EQ(tensor.dtype(), dtype);
    mesh_.download(tensor, MutableHostView(down.data(), dtype, shape));
    EXPECT_EQ(std::memcmp(up.data(), down.data(), bytes), 0);
  }
}

TEST_P(MeshTransfer, EveryNumberOfDimensions) {
  for (int dims = 1; dims <= kMaxDims; ++dims) {
    const std::vector<std::int64_t> extents(static_cast<std::size_t>(dims), 2);
    const Shape shape{std::span<const std::int64_t>(extents)};
    const std::vector<std::int32_t> up =
        counting(static_cast<std::size_t>(shape.element_count()), std::int32_t{dims});
    const DeviceTensor tensor = mesh_.alloc(0, HostView(up.data(), shape));
    EXPECT_EQ(tensor.dims(), dims);
    EXPECT_EQ(values_of<std::int32_t>(mesh_, tensor), up);
  }
}

TEST_P(MeshTransfer, StacksGoShardByShard) {
  const std::vector<float> up = counting(12, 1.0f);
  const std::vector<int> ranks = {2, 0, 1};
  const StackedDeviceTensor stack = mesh_.alloc_stacked(HostView(up.data(), {3, 4}), ranks);
  EXPECT_EQ(values_of(mesh_, stack), up);
  for (int shard = 0; shard < 3; ++shard) {
    EXPECT_EQ(values_of(mesh_, stack[shard]), counting(4, 1.0f + 4.0f * static_cast<float>(shard)));
  }
  const std::vector<float> one = counting(4, 50.0f);
  mesh_.upload(stack.shard_on(0), HostView(one.data(), {4}));
  EXPECT_EQ(values_of(mesh_, stack[1]), one);
  EXPECT_EQ(values_of(mesh_, stack[0]), counting(4, 1.0f));
}

TEST_P(MeshTransfer, LargeOnesToo) {
  const std::vector<std::int64_t> up = counting<std::int64_t>(std::size_t{1} << 20, 3);
  const DeviceTensor tensor = mesh_.alloc(0, HostView(up.data(), {1 << 20}));
  EXPECT_EQ(values_of<std::int64_t>(mesh_, tensor), up);
}

TEST_P(MeshTransfer, RefusesViewsOfAnotherKind) {
  const std::vector<float> before = counting(6, 1.0f);
  const DeviceTensor tensor = mesh_.alloc(0, HostView(before.data(), {2, 3}));
  const StackedDeviceTensor stack = mesh_.alloc_stacked({3, 2}, DType::f32);
  std::vector<double> wide(6, -1.0);
  std::vector<float> host(6, -1.0f);
  const std::uint64_t transfers = mesh_.stats().transfers;
  const auto refused = [](std::initializer_list<std::string> words, auto call) {
    expect_error(ErrorCode::invalid_argument, words, call);
  };
  refused({"upload", "f64[2, 3]", "f32[2, 3]"},
          [&] { mesh_.upload(tensor, HostView(wide.data(), {2, 3})); });
  refused({"upload", "f32[3, 2]", "f32[2, 3]"},
          [&] { mesh_.upload(tensor, HostView(host.data(), {3, 2})); });
  refused({"upload", "f32[6]"}, [&] { mesh_.upload(tensor, HostView(host.data(), {6})); });
  refused({"download", "f32[6]"},
          [&] { mesh_.download(tensor, MutableHostView(host.data(), {6})); });
  refused({"download", "i32[2, 3]"},
          [&] { mesh_.download(tensor, MutableHostView(host.data(), DType::i32, {2, 3})); });
  refused({"upload", "f32[2, 3]", "f32[3, 2]"},
          [&] { mesh_.upload(stack, HostView(host.data(), {2, 3})); });
  refused({"download", "f32[6]"},
          [&] { mesh_.download(stack, MutableHostView(host.data(), {6})); });
  EXPECT_EQ(mesh_.stats().transfers, transfers);
  EXPECT_EQ(host, std::vector<float>(6, -1.0f));
  EXPECT_EQ(values_of(mesh_, tensor), before);
}

TEST_P(MeshTransfer, RefusesHostMemoryThatIsNone) {
  alignas(8) unsigned char bytes[64] = {};
  expect_error(ErrorCode::invalid_argument, {"align"},
               [&] { HostView(bytes + 1, DType::f32, {2}); });
  expect_error(ErrorCode::invalid_argument, {"align"},
               [&] { MutableHostView(bytes + 4, DType::i64, {2}); });
  expect_error(ErrorCode::invalid_argument, {"null"}, [&] { HostView(nullptr, DType::f32, {2}); });
  expect_error(ErrorCode::invalid_argument, {},
               [&] { HostView(bytes, static_cast<DType>(77), {2}); });
}

TEST_P(MeshTransfer, AStackWithOneStaleShardMovesNothing) {
  const std::vector<float> up = counting(6, 1.0f);
  const StackedDeviceTensor stack = mesh_.alloc_stacked(HostView(up.data(), {3, 2}));
  mesh_.free(stack);
  std::vector<float> host(6, -1.0f);
  const auto error = error_of([&] { mesh_.download(stack, MutableHostView(host.data(), {3, 2})); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::stale_tensor);
  EXPECT_EQ(error->rank(), 0);
  EXPECT_EQ(host, std::vector<float>(6, -1.0f));
}

TEST_P(MeshTransfer, ComesAfterWorkThatWasSubmittedBefore) {
  const TempFolder folder;
  const std::string gate = folder.path("gate");
  ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
  setenv("RANKCAST_TEST_PROBE_GATE", gate.c_str(), 1);
  mesh_ = open();  // its ranks know the gate
  mesh_.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
  const std::int64_t start = 10;
  const DeviceTensor tensor = mesh_.alloc(1, HostView(&start, {1}));
  const Program add("add", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("probe.pipe_gate", 1, TaskArgs{});
    orch.submit("probe.plus_one", 1, TaskArgs{}.inout(args[0]));
  });
  const rankcast::Run first = mesh_.submit(add, {tensor});
  const rankcast::Run second = mesh_.submit(add, {tensor});
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(gate + ".entered"); }));

  std::int64_t seen = -1;
  std::thread reader([&] { seen = values_of<std::int64_t>(mesh_, tensor)[0]; });
  EXPECT_TRUE(eventually([&] { return mesh_.stats().transfers == 2; }));
  EXPECT_FALSE(first.done());
  const base::Fd opened(::open(gate.c_str(), O_RDWR | O_CLOEXEC));  // from here on for all
  reader.join();
  EXPECT_EQ(seen, 12);

  // An upload overwrites what came before it, and is overwritten by what comes after.
  const rankcast::Run third = mesh_.submit(add, {tensor});
  const std::int64_t again = 100;
  mesh_.upload(tensor, HostView(&again, {1}));
  mesh_.submit(add, {tensor}).wait();
  EXPECT_EQ(values_of<std::int64_t>(mesh_, tensor)[0], 101);
  for (const rankcast::Run* run : {&first, &second, &third}) run->wait();
  unsetenv("RANKCAST_TEST_PROBE_GATE");
}

TEST_P(MeshTransfer, CountsAsARunOfItsOwn) {
  const float value = 1;
  const MeshStats before = mesh_.stats();
  const DeviceTensor tensor = mesh_.alloc(0, HostView(&value, {1}));
  values_of(mesh_, tensor);
  const MeshStats after = mesh_.stats();
  EXPECT_EQ(after.transfers, before.transfers + 2);
  EXPECT_EQ(after.submits, before.submits);
  EXPECT_GT(after.bytes_written, before.bytes_written);
  EXPECT_EQ(after.runs_in_flight, 0u);
}

INSTANTIATE_TEST_SUITE_P(Links, MeshTransfer, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
