// Resident views: what they show, when, and what they keep alive.
#include "rankcast/resident_view.h"

#include <signal.h>

#include <algorithm>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class MeshResidentView : public OnEachLink {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-1";
    options.link = GetParam();
    return Mesh::open(options);
  }
  DeviceTensor counted(int rank, const Shape& shape, float first = 0) {
    const std::vector<float> values =
        counting(static_cast<std::size_t>(shape.element_count()), first);
    return mesh_.alloc(rank, HostView(values.data(), shape));
  }

  Mesh mesh_ = open();
};

std::vector<float> shown(const ResidentView& view, std::size_t count) {
  const auto* data = static_cast<const float*>(view.data());
  return {data, data + count};
}

TEST_P(MeshResidentView, ShowsTheTensorInPlace) {
  const DeviceTensor tensor = counted(1, {3, 4});
  const ResidentView view = mesh_.view(tensor);
  EXPECT_FALSE(view.empty());
  EXPECT_EQ(view.dtype(), DType::f32);
  EXPECT_EQ(view.shape(), (Shape{3, 4}));
  EXPECT_EQ(view.strides()[0], 4);
  EXPECT_EQ(view.rank(), 1);
  EXPECT_EQ(shown(view, 12), counting(12));
  const std::vector<float> other = counting(12, 50.0F);
  mesh_.upload(tensor, HostView(other.data(), {3, 4}));
  EXPECT_EQ(shown(view, 12), other);
}

TEST_P(MeshResidentView, ShowsAViewByItsStrides) {
  const DeviceTensor tensor = counted(0, {3, 4});
  const ResidentView view = mesh_.view(tensor.slice(1, 1, 4, 2).transpose(0, 1));
  EXPECT_EQ(view.shape(), (Shape{2, 3}));
  const auto* data = static_cast<const float*>(view.data());
  EXPECT_EQ(data[1 * view.strides()[0] + 2 * view.strides()[1]], 11.0F);
  const StackedDeviceTensor stack = mesh_.alloc_stacked({2, 5}, DType::i16);
  EXPECT_EQ(mesh_.view(stack[1]).shape(), Shape{5});
}

TEST_P(MeshResidentView, ComesAfterWorkThatWasSubmittedBefore) {
  const DeviceTensor source = counted(0, {kMiB});
  const DeviceTensor target = mesh_.alloc(0, {kMiB}, DType::f32);
  const Program copies("copies", [](Orchestrator& orch, const Arguments& args) {
    orch.submit("rankcast.fill", 0, TaskArgs{}.out(args[1]).scalar(1.0));
    orch.submit("rankcast.copy", 0, TaskArgs{}.in(args[0]).out(args[1]));
  });
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t transfers = mesh_.stats().transfers;
    const rankcast::Run run = mesh_.submit(copies, {source, target});
    const ResidentView view = mesh_.view(target);
    EXPECT_EQ(static_cast<const float*>(view.data())[kMiB - 1], static_cast<float>(kMiB - 1));
    EXPECT_EQ(mesh_.stats().transfers, transfers + 1);
  }
}

TEST_P(MeshResidentView, KeepsFreedMemoryUntilTheLastViewIsGone) {
  // Two of them do not fit into one segment.
  const Shape large{40 * kMiB};
  const DeviceTensor tensor = mesh_.alloc(0, large, DType::u8);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(40 * kMiB), 7);
  mesh_.upload(tensor, HostView(bytes.data(), large));
  const std::uint64_t reserved = mesh_.stats().reserved_bytes;
  ResidentView first = mesh_.view(tensor);
  ResidentView second = mesh_.view(tensor.slice(0, 5, 10));
  EXPECT_EQ(mesh_.stats().pinned_bytes, static_cast<std::uint64_t>(40 * kMiB));
  mesh_.free(tensor);
  expect_error(ErrorCode::stale_tensor, {"view", "freed"}, [&] { mesh_.view(tensor); });
  EXPECT_EQ(mesh_.stats().live_buffers, 0U);

  const DeviceTensor other = mesh_.alloc(0, large, DType::u8);
  std::fill(bytes.begin(), bytes.end(), std::uint8_t{9});
  mesh_.upload(other, HostView(bytes.data(), large));
  EXPECT_GT(mesh_.stats().reserved_bytes, reserved);
  const auto* data = static_cast<const std::uint8_t*>(first.data());
  EXPECT_EQ(std::count(data, data + 40 * kMiB, 7), 40 * kMiB);

  first = ResidentView();
  EXPECT_EQ(mesh_.stats().pinned_bytes, static_cast<std::uint64_t>(40 * kMiB));
  EXPECT_EQ(*static_cast<const std::uint8_t*>(second.data()), 7);
  second = ResidentView();
  EXPECT_EQ(mesh_.stats().pinned_bytes, 0U);
  const std::uint64_t grown = mesh_.stats().reserved_bytes;
  mesh_.alloc(0, large, DType::u8);
  EXPECT_EQ(mesh_.stats().reserved_bytes, grown) << "the memory was to be used again";
}

TEST_P(MeshResidentView, AViewOfALiveTensorGivesNothingBack) {
  const DeviceTensor tensor = counted(0, {4});
  {
    const ResidentView view = mesh_.view(tensor);
  }
  EXPECT_EQ(mesh_.stats().pinned_bytes, 0U);
  EXPECT_EQ(values_of(mesh_, tensor), counting(4));
}

TEST_P(MeshResidentView, OutlivesItsMesh) {
  ResidentView freed;
  ResidentView live;
  {
    const DeviceTensor tensor = counted(0, {4}, 3.0F);
    freed = mesh_.view(tensor);
    live = mesh_.view(counted(1, {4}, 8.0F));
    mesh_.free(tensor);
    EXPECT_EQ(mesh_.close().leaked_buffers, 1U);
    expect_error(ErrorCode::closed, {"closed"}, [&] { mesh_.view(tensor); });
    mesh_ = open();
  }
  EXPECT_EQ(shown(freed, 4), counting(4, 3.0F));
  EXPECT_EQ(shown(live, 4), counting(4, 8.0F));
  freed = ResidentView();
  EXPECT_EQ(shown(live, 4), counting(4, 8.0F));
  EXPECT_TRUE(freed.empty());
}

TEST_P(MeshResidentView, MovesAndEmptyOnes) {
  const DeviceTensor tensor = counted(0, {4});
  ResidentView from = mesh_.view(tensor);
  const ResidentView to = std::move(from);
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move): what a move leaves is said
  EXPECT_EQ(from.data(), nullptr);
  EXPECT_EQ(from.rank(), -1);
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { from.shape(); });
  EXPECT_EQ(shown(to, 4), counting(4));
}

TEST_P(MeshResidentView, RefusesWhatOtherCallsRefuse) {
  Mesh other = open();
  const DeviceTensor foreign = other.alloc(0, {4}, DType::f32);
  expect_error(ErrorCode::foreign_tensor, {"view"}, [&] { mesh_.view(foreign); });
  expect_error(ErrorCode::invalid_argument, {"view", "empty"}, [&] { mesh_.view(DeviceTensor()); });
  const DeviceTensor tensor = counted(0, {4});
  const Program inside("inside", [&](Orchestrator&, const Arguments&) { mesh_.view(tensor); });
  expect_error(ErrorCode::invalid_argument, {"view"}, [&] { mesh_.submit(inside, {}); });
  EXPECT_EQ(mesh_.stats().pinned_bytes, 0U);
}

TEST_P(MeshResidentView, UndefinedContentsAreNotShown) {
  if (GetParam() != "thread") GTEST_SKIP() << "its kernels are functions of the test";
  mesh_.register_kernel("test.fail", [](const KernelCall&) { throw std::runtime_error("no"); });
  const DeviceTensor tensor = counted(0, {4});
  const rankcast::Run run =
      mesh_.submit(Program("spoil",
                           [](Orchestrator& orch, const Arguments& args) {
                             orch.submit("test.fail", 0, TaskArgs{}.out(args[0].slice(0, 2, 3)));
                           }),
                   {tensor});
  expect_error(ErrorCode::task_failed, {"test.fail"}, [&] { run.wait(); });
  expect_error(ErrorCode::undefined_contents,
               {"view", "run " + std::to_string(run.dispatch_id()), "upload"},
               [&] { mesh_.view(tensor); });
  EXPECT_EQ(mesh_.stats().pinned_bytes, 0U);
  EXPECT_EQ(shown(mesh_.view(tensor.slice(0, 0, 2)), 2), counting(2));
}

TEST_P(MeshResidentView, StaysWhenItsRankIsLost) {
  if (GetParam() != "process") GTEST_SKIP() << "ranks that die alone are processes";
  const DeviceTensor tensor = counted(1, {4}, 3.0F);
  const ResidentView view = mesh_.view(tensor);
  ASSERT_EQ(kill(mesh_.ranks()[1].process, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return mesh_.ranks()[1].lost; }));
  EXPECT_EQ(shown(view, 4), counting(4, 3.0F));
  expect_error(ErrorCode::rank_lost, {"rank 1"}, [&] { mesh_.view(tensor); });
  mesh_.restart_rank(1);
  expect_error(ErrorCode::stale_tensor, {"view"}, [&] { mesh_.view(tensor); });
  const DeviceTensor young = counted(1, {4}, 90.0F);
  EXPECT_EQ(shown(view, 4), counting(4, 3.0F));
  EXPECT_EQ(values_of(mesh_, young), counting(4, 90.0F));
}

INSTANTIATE_TEST_SUITE_P(Links, MeshResidentView, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
