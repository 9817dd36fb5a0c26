// What a failed, poisoned or cancelled task should have written is undefined until it is written.
//
// tests: src/rank/undefined.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class MeshUndefined : public ::testing::Test {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-3";
    options.max_in_flight = 4;
    return Mesh::open(options);
  }

  MeshUndefined() {
    mesh_.register_kernel("test.fail", [](const KernelCall&) { throw std::runtime_error("no"); });
  }

  /// One task of `kernel` on the tensor's rank, with the tensor as `out`.
  rankcast::Run writes(const std::string& kernel, const DeviceTensor& tensor) {
    return mesh_.submit(Program("writes",
                                [&](Orchestrator& orch, const Arguments&) {
                                  TaskArgs task;
                                  task.out(tensor);
                                  if (kernel == "rankcast.fill") task.scalar(5);
                                  orch.submit(kernel, tensor.rank(), task);
                                }),
                        {});
  }
  /// Leaves the tensor undefined; the run that did it.
  std::uint64_t spoil(const DeviceTensor& tensor) {
    const rankcast::Run run = writes("test.fail", tensor);
    expect_error(ErrorCode::task_failed, {"test.fail"}, [&] { run.wait(); });
    return run.dispatch_id();
  }
  /// A task that reads it.
  void expect_undefined(const DeviceTensor& tensor, std::uint64_t run) {
    expect_error(ErrorCode::undefined_contents,
                 {"argument 0 are undefined", "run " + std::to_string(run) + " should", "upload"},
                 [&] { read(tensor); });
  }
  void read(const DeviceTensor& tensor) {
    mesh_
        .submit(Program("reads",
                        [&](Orchestrator& orch, const Arguments&) {
                          orch.submit("test.count", tensor.rank(), TaskArgs{}.in(tensor));
                        }),
                {})
        .wait();
  }

  Mesh mesh_ = open();
  std::shared_ptr<std::atomic<int>> count_ = add_counter(mesh_);
};

TEST_F(MeshUndefined, AReaderFailsNamingTheEarlierRunUntilAnUpload) {
  const DeviceTensor tensor = mesh_.alloc(1, {4}, DType::f32);
  const DeviceTensor other = mesh_.alloc(1, {4}, DType::f32);
  const std::uint64_t run = spoil(tensor);
  expect_undefined(tensor, run);
  expect_undefined(tensor, run);
  EXPECT_EQ(count_->load(), 0);
  read(other);
  expect_error(ErrorCode::undefined_contents, {"'download'", "run " + std::to_string(run)},
               [&] { values_of(mesh_, tensor); });
  const std::vector<float> values{1, 2, 3, 4};
  mesh_.upload(tensor, HostView(values.data(), {4}));
  read(tensor);
  EXPECT_EQ(values_of(mesh_, tensor), values);
}

TEST_F(MeshUndefined, AnOutThatCoversItHealsItAndAPartDoesNot) {
  const DeviceTensor tensor = mesh_.alloc(0, {8}, DType::f32);
  const DeviceTensor half = tensor.slice(0, 0, 4);
  const DeviceTensor rest = tensor.slice(0, 4, 8);
  std::uint64_t run = spoil(tensor);
  writes("rankcast.fill", half).wait();
  expect_undefined(rest, run);
  expect_undefined(tensor, run);
  writes("rankcast.fill", tensor).wait();
  EXPECT_THAT(values_of(mesh_, tensor), Each(5.f));
  run = spoil(half);
  expect_undefined(tensor, run);
  read(rest);
  writes("rankcast.fill", half).wait();
  read(tensor);
}

TEST_F(MeshUndefined, AnInoutReadsAndTheLastRunIsNamed) {
  const DeviceTensor tensor = mesh_.alloc(0, {4}, DType::f32);
  spoil(tensor);
  const std::uint64_t run = spoil(tensor);
  expect_error(ErrorCode::undefined_contents, {"run " + std::to_string(run) + " should"}, [&] {
    mesh_
        .submit(Program("changes",
                        [&](Orchestrator& orch, const Arguments&) {
                          orch.submit("test.count", 0, TaskArgs{}.inout(tensor));
                        }),
                {})
        .wait();
  });
  // The task that would have changed it is the last that did not.
  expect_undefined(tensor, run + 1);
}

TEST_F(MeshUndefined, WithinARunAWriterHealsIt) {
  const DeviceTensor tensor = mesh_.alloc(0, {4}, DType::f32);
  const rankcast::Run run =
      mesh_.submit(Program("heals",
                           [&](Orchestrator& orch, const Arguments&) {
                             orch.submit("test.fail", 0, TaskArgs{}.out(tensor));
                             orch.submit("rankcast.fill", 0, TaskArgs{}.out(tensor).scalar(2));
                             orch.submit("test.count", 0, TaskArgs{}.in(tensor));
                           }),
                   {});
  expect_error(ErrorCode::task_failed, {"task 0"}, [&] { run.wait(); });
  EXPECT_EQ(count_->load(), 1);
  read(tensor);
}

TEST_F(MeshUndefined, AnotherRankMayNotCopyIt) {
  const DeviceTensor tensor = mesh_.alloc(0, {4}, DType::f32);
  const DeviceTensor target = mesh_.alloc(3, {4}, DType::f32);
  const auto copy = [&] {
    return mesh_.submit(
        Program("copy", [&](Orchestrator& orch, const Arguments&) { orch.copy(target, tensor); }),
        {});
  };
  const std::uint64_t run = spoil(tensor);
  expect_error(ErrorCode::undefined_contents,
               {"('copy') on rank 3", "argument 1", "run " + std::to_string(run)},
               [&] { copy().wait(); });
  expect_undefined(target, run + 1);
  writes("rankcast.fill", tensor).wait();
  copy().wait();
  read(target);
  // With both in flight.
  const auto gate = add_gate(mesh_);
  const OpenAtEnd open_at_end(gate);
  const rankcast::Run held = mesh_.submit(launch_on("test.gate", {0}), {});
  const rankcast::Run spoils = writes("test.fail", tensor);
  const rankcast::Run reads = copy();
  gate->open();
  expect_error(ErrorCode::undefined_contents, {"run " + std::to_string(spoils.dispatch_id())},
               [&] { reads.wait(); });
}

TEST_F(MeshUndefined, FreedMemoryIsForgotten) {
  for (int round = 0; round < 10; ++round) {
    const DeviceTensor tensor = mesh_.alloc(0, {64}, DType::f32);
    read(tensor);
    spoil(tensor);
    mesh_.free(tensor);
  }
}

TEST_F(MeshUndefined, ManyUndefinedTensors) {
  std::vector<DeviceTensor> tensors;
  for (int i = 0; i < 700; ++i) tensors.push_back(mesh_.alloc(0, {1}, DType::f32));
  const DeviceTensor fine = mesh_.alloc(0, {1}, DType::f32);
  const DeviceTensor target = mesh_.alloc(1, {1}, DType::f32);
  writes("rankcast.fill", fine).wait();
  for (const DeviceTensor& tensor : tensors) spoil(tensor);
  read(fine);
  // Another rank is not told so many one by one: it takes all for undefined.
  const Program copy("copy",
                     [&](Orchestrator& orch, const Arguments&) { orch.copy(target, fine); });
  expect_error(ErrorCode::undefined_contents, {"an earlier run"},
               [&] { mesh_.submit(copy, {}).wait(); });
  for (const DeviceTensor& tensor : tensors) writes("rankcast.fill", tensor).wait();
  mesh_.submit(copy, {}).wait();
}

TEST_F(MeshUndefined, ACancelledRunLeavesItsOutputsUndefined) {
  const auto gate = add_gate(mesh_);
  const OpenAtEnd open_at_end(gate);
  const DeviceTensor tensor = mesh_.alloc(1, {4}, DType::f32);
  const rankcast::Run run = mesh_.submit(
      Program("waits",
              [&](Orchestrator& orch, const Arguments&) {
                const Task held = orch.submit("test.gate", 0, TaskArgs{});
                orch.submit("rankcast.fill", 1, TaskArgs{}.out(tensor).scalar(1).after(held));
                orch.submit("test.count", 0, TaskArgs{});
              }),
      {});
  gate->wait_entered(1);
  run.cancel();
  EXPECT_FALSE(run.done()) << "what runs is not interrupted";
  gate->open();
  for (int i = 0; i < 2; ++i) {
    expect_error(ErrorCode::cancelled, {"task 1 ('rankcast.fill') on rank 1", "cancelled"},
                 [&] { run.wait(); });
  }
  EXPECT_EQ(count_->load(), 0);
  run.cancel();
  expect_undefined(tensor, run.dispatch_id());
}

TEST_F(MeshUndefined, CancellingWhatIsDoneChangesNothing) {
  const rankcast::Run run = mesh_.submit(launch_everywhere("test.count"), {});
  run.wait();
  run.cancel();
  run.wait();
  mesh_.submit(launch_everywhere("test.count"), {}).wait();
  EXPECT_EQ(count_->load(), 8);
  expect_error(ErrorCode::invalid_argument, {"cancel"}, [] { rankcast::Run().cancel(); });
}

// On link process it comes in pieces; the kernel that fails is of a library.
class MeshUndefinedOnEachLink : public OnEachLink {};

TEST_P(MeshUndefinedOnEachLink, ALargeUploadHealsTheWhole) {
  MeshOptions options;
  options.devices = "cpu:0-1";
  options.link = GetParam();
  Mesh mesh = Mesh::open(options);
  mesh.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
  constexpr std::int64_t kWide = (std::int64_t{64} << 20) / 8 + 1000;
  const DeviceTensor tensor = mesh.alloc(1, {kWide}, DType::i64);
  expect_error(ErrorCode::task_failed, {"probe.refuses"}, [&] {
    mesh.submit(Program("spoil",
                        [&](Orchestrator& orch, const Arguments&) {
                          orch.submit("probe.refuses", 1, TaskArgs{}.out(tensor));
                        }),
                {})
        .wait();
  });
  expect_error(ErrorCode::undefined_contents, {"'download'"},
               [&] { values_of<std::int64_t>(mesh, tensor); });
  const std::vector<std::int64_t> values = counting<std::int64_t>(static_cast<std::size_t>(kWide));
  mesh.upload(tensor, HostView(values.data(), {kWide}));
  EXPECT_EQ(values_of<std::int64_t>(mesh, tensor), values);
}

INSTANTIATE_TEST_SUITE_P(Links, MeshUndefinedOnEachLink, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
