// Resident memory: what alloc gives and refuses, what free does, and what is counted.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

class MeshResidency : public OnEachLink {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-3";
    options.link = GetParam();
    return Mesh::open(options);
  }

  /// The call is refused and nothing has changed.
  template <class Call>
  std::optional<Error> expect_refused(ErrorCode code, std::initializer_list<std::string> words,
                                      Call call) {
    const MeshStats before = mesh_.stats();
    const std::optional<Error> error = error_of(call);
    if (error) {
      EXPECT_EQ(error_code_name(error->code()), error_code_name(code)) << error->what();
      for (const std::string& word : words) EXPECT_THAT(error->what(), ::testing::HasSubstr(word));
    }
    const MeshStats after = mesh_.stats();
    EXPECT_EQ(after.live_buffers, before.live_buffers);
    EXPECT_EQ(after.live_bytes, before.live_bytes);
    EXPECT_EQ(after.deferred_bytes, before.deferred_bytes);
    EXPECT_EQ(after.transfers, before.transfers);
    EXPECT_EQ(after.submits, before.submits);
    return error;
  }

  Mesh mesh_ = open();
};

TEST_P(MeshResidency, ATensorIsWhatWasAskedFor) {
  const DeviceTensor tensor = mesh_.alloc(2, {3, 5}, DType::i16);
  EXPECT_FALSE(tensor.empty());
  EXPECT_EQ(tensor.rank(), 2);
  EXPECT_EQ(tensor.dtype(), DType::i16);
  EXPECT_EQ(tensor.shape(), (Shape{3, 5}));
  EXPECT_EQ(tensor.size_bytes(), 30u);
  EXPECT_EQ(std::vector<std::int64_t>(tensor.strides().begin(), tensor.strides().end()),
            (std::vector<std::int64_t>{5, 1}));
  EXPECT_EQ(tensor.buffer().rank, 2);
  EXPECT_EQ(mesh_.stats().live_buffers, 1u);
  EXPECT_EQ(mesh_.stats().live_bytes, 30u);
  EXPECT_EQ(mesh_.ranks()[2].memory_bytes, 30u);
  EXPECT_EQ(mesh_.ranks()[1].memory_bytes, 0u);
  EXPECT_GE(mesh_.ranks()[2].reserved_bytes, 30u);
}

TEST_P(MeshResidency, BuffersAreAlignedAndApart) {
  mesh_.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
  std::vector<DeviceTensor> tensors;
  for (const std::int64_t size : {1, 255, 256, 257, 4096, 3})
    tensors.push_back(mesh_.alloc(1, {size}, DType::u8));
  const DeviceTensor out =
      mesh_.alloc(1, {2 * static_cast<std::int64_t>(tensors.size())}, DType::i64);
  const Program where("where", [&](Orchestrator& orch, const Arguments&) {
    TaskArgs args;
    for (const DeviceTensor& tensor : tensors) args.in(tensor);
    orch.submit("probe.where", 1, args.out(out));
  });
  mesh_.submit(where, {}).wait();
  const std::vector<std::int64_t> found = values_of<std::int64_t>(mesh_, out);
  std::set<std::pair<std::uintptr_t, std::size_t>> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    places.emplace(static_cast<std::uintptr_t>(found[2 * i]),
                   static_cast<std::size_t>(found[2 * i + 1]));
  }
  ASSERT_EQ(places.size(), tensors.size());
  std::uintptr_t end = 0;
  for (const auto& [begin, size] : places) {
    EXPECT_EQ(begin % 256, 0u);
    EXPECT_GE(begin, end) << "two buffers share a byte";
    end = begin + size;
  }
}

TEST_P(MeshResidency, RefusesRanksThatDoNotExist) {
  for (const int rank : {-1, 4, 1'000'000, std::numeric_limits<int>::min()}) {
    const auto error =
        expect_refused(ErrorCode::invalid_argument, {"alloc", std::to_string(rank), "0 to 3"},
                       [&] { mesh_.alloc(rank, {1}, DType::f32); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->rank(), rank < 0 ? std::nullopt : std::optional<int>(rank));
  }
}

TEST_P(MeshResidency, RefusesShapesThatAreNone) {
  expect_refused(ErrorCode::invalid_argument, {}, [&] { mesh_.alloc(0, {}, DType::f32); });
  expect_refused(ErrorCode::invalid_argument, {"0"}, [&] { mesh_.alloc(0, {4, 0}, DType::f32); });
  expect_refused(ErrorCode::invalid_argument, {"-3"}, [&] { mesh_.alloc(0, {-3}, DType::f32); });
  expect_refused(ErrorCode::invalid_argument, {"9", "8"},
                 [&] { mesh_.alloc(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}, DType::f32); });
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  expect_refused(ErrorCode::invalid_argument, {}, [&] { mesh_.alloc(0, {kHuge, 4}, DType::u8); });
  expect_refused(ErrorCode::invalid_argument, {}, [&] { mesh_.alloc(0, {kHuge}, DType::f64); });
  expect_refused(ErrorCode::invalid_argument, {},
                 [&] { mesh_.alloc_stacked({4, kHuge}, DType::f64); });
}

TEST_P(MeshResidency, RefusesADtypeThatIsNone) {
  for (const int bad : {0, 11, 255}) {
    expect_refused(ErrorCode::invalid_argument, {"dtype"},
                   [&] { mesh_.alloc(0, {1}, static_cast<DType>(bad)); });
    expect_refused(ErrorCode::invalid_argument, {"dtype"},
                   [&] { mesh_.alloc_stacked({4, 1}, static_cast<DType>(bad)); });
  }
}

TEST_P(MeshResidency, RefusesWhatNoMemoryHolds) {
  constexpr std::int64_t kTooMuch = std::int64_t{1} << 60;
  const auto error = expect_refused(ErrorCode::out_of_memory, {"rank 3", std::to_string(kTooMuch)},
                                    [&] { mesh_.alloc(3, {kTooMuch}, DType::u8); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 3);
  // Several shards fit the shape and no rank's memory; none stays.
  expect_refused(ErrorCode::out_of_memory, {std::to_string(kTooMuch)},
                 [&] { mesh_.alloc_stacked({4, kTooMuch}, DType::u8); });
}

TEST_P(MeshResidency, AStackHasAShardOnEachRankGiven) {
  const StackedDeviceTensor by_default = mesh_.alloc_stacked({3, 7}, DType::f64);
  EXPECT_EQ(by_default.shard_count(), 3);
  EXPECT_EQ(by_default.shape(), (Shape{3, 7}));
  EXPECT_EQ(by_default.size_bytes(), 168u);
  for (int shard = 0; shard < 3; ++shard) EXPECT_EQ(by_default.rank_of(shard), shard);
  expect_error(ErrorCode::wrong_rank, {"3"}, [&] { by_default.shard_on(3); });

  const std::vector<int> ranks = {3, 0, 2};
  const StackedDeviceTensor permuted = mesh_.alloc_stacked({3, 7}, DType::f64, ranks);
  for (int shard = 0; shard < 3; ++shard) {
    EXPECT_EQ(permuted.rank_of(shard), ranks[static_cast<std::size_t>(shard)]);
    EXPECT_EQ(permuted.shard_on(permuted.rank_of(shard)).buffer(), permuted[shard].buffer());
    EXPECT_EQ(permuted[shard].shape(), (Shape{7}));
  }
  EXPECT_EQ(mesh_.stats().live_buffers, 6u);
  EXPECT_EQ(mesh_.stats().live_bytes, 2u * 168u);
}

TEST_P(MeshResidency, RefusesStacksThatDoNotFitTheRanks) {
  using Ranks = std::vector<int>;
  const auto refused = [&](const Shape& shape, const Ranks& ranks,
                           std::initializer_list<std::string> words) {
    return expect_refused(ErrorCode::invalid_argument, words,
                          [&] { mesh_.alloc_stacked(shape, DType::f32, ranks); });
  };
  refused({4}, {}, {"[4]", "one dimension"});
  refused({5, 2}, {}, {"5", "4 ranks"});
  refused({2, 2}, {0, 1, 2}, {"2 shards", "3"});
  refused({3, 2}, {0, 1}, {"3 shards", "2"});
  EXPECT_EQ(refused({2, 2}, {1, 1}, {"rank 1", "twice"})->rank(), 1);
  EXPECT_EQ(refused({2, 2}, {0, 4}, {"rank 4"})->rank(), 4);
  refused({2, 2}, {0, -1}, {"rank -1"});
  refused({std::int64_t{1} << 40, 2}, {}, {"4 ranks"});
}

TEST_P(MeshResidency, AReplicaOnEachRankGiven) {
  const std::vector<float> host = counting(6, 1.0f);
  const StackedDeviceTensor everywhere = mesh_.alloc_replicated(HostView(host.data(), {2, 3}));
  EXPECT_EQ(everywhere.shape(), (Shape{4, 2, 3}));
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(values_of(mesh_, everywhere.shard_on(rank)), host);

  const std::vector<int> ranks = {2, 0};
  const StackedDeviceTensor somewhere = mesh_.alloc_replicated(HostView(host.data(), {6}), ranks);
  EXPECT_EQ(somewhere.shape(), (Shape{2, 6}));
  EXPECT_EQ(somewhere.rank_of(0), 2);
  EXPECT_EQ(values_of(mesh_, somewhere[1]), host);

  const HostView eight(host.data(), {1, 1, 1, 1, 1, 1, 1, 6});
  expect_refused(ErrorCode::invalid_argument, {"8"}, [&] { mesh_.alloc_replicated(eight); });
  const std::vector<int> twice = {2, 2};
  expect_refused(ErrorCode::invalid_argument, {"twice"},
                 [&] { mesh_.alloc_replicated(HostView(host.data(), {6}), twice); });
}

TEST_P(MeshResidency, FreeingTwiceDoesNothing) {
  const DeviceTensor tensor = mesh_.alloc(0, {100}, DType::u8);
  const DeviceTensor copy = tensor;
  const StackedDeviceTensor stack = mesh_.alloc_stacked({4, 100}, DType::u8);
  mesh_.free(tensor);
  EXPECT_EQ(mesh_.stats().live_buffers, 4u);
  mesh_.free(copy);
  mesh_.free(stack);
  mesh_.free(stack);
  EXPECT_EQ(mesh_.stats().live_buffers, 0u);
  EXPECT_EQ(mesh_.stats().live_bytes, 0u);
  EXPECT_EQ(mesh_.stats().deferred_bytes, 0u);
}

TEST_P(MeshResidency, AStaleHandleReachesNothing) {
  const std::vector<float> ours = counting(4, 1.0f);
  const std::vector<float> theirs = counting(4, 100.0f);
  const DeviceTensor old = mesh_.alloc(1, HostView(ours.data(), {4}));
  mesh_.free(old);
  const DeviceTensor young = mesh_.alloc(1, HostView(theirs.data(), {4}));
  ASSERT_EQ(young.buffer().slot, old.buffer().slot) << "the slot was to be used again";
  ASSERT_FALSE(young.buffer() == old.buffer());

  std::vector<float> host(4, -1.0f);
  const auto stale = expect_refused(ErrorCode::stale_tensor, {"upload", "freed", "rank 1"},
                                    [&] { mesh_.upload(old, HostView(ours.data(), {4})); });
  EXPECT_EQ(stale->rank(), 1);
  expect_refused(ErrorCode::stale_tensor, {"download", "freed"},
                 [&] { mesh_.download(old, MutableHostView(host.data(), {4})); });
  EXPECT_EQ(host, std::vector<float>(4, -1.0f));
  mesh_.free(old);
  EXPECT_EQ(mesh_.stats().live_buffers, 1u);
  EXPECT_EQ(values_of(mesh_, young), theirs);
}

TEST_P(MeshResidency, AShardIsFreedWithItsStack) {
  const StackedDeviceTensor stack = mesh_.alloc_stacked({4, 8}, DType::f32);
  expect_refused(ErrorCode::invalid_argument, {"free", "stack"}, [&] { mesh_.free(stack[2]); });
  expect_refused(ErrorCode::invalid_argument, {"free", "stack"},
                 [&] { mesh_.free(stack.shard_on(0)); });
  mesh_.free(stack);
  EXPECT_EQ(mesh_.stats().live_buffers, 0u);
}

TEST_P(MeshResidency, AViewIsFreedWithItsTensor) {
  const DeviceTensor tensor = mesh_.alloc(1, {4, 8}, DType::f32);
  const StackedDeviceTensor stack = mesh_.alloc_stacked({4, 8}, DType::f32);
  // Also one of the whole: by what made it a view is known, not by what it shows.
  for (const DeviceTensor& view : {tensor.slice(0, 0, 4), tensor.slice(1, 2, 4).transpose(0, 1)}) {
    const auto error =
        expect_refused(ErrorCode::invalid_argument, {"free", "is a view", "that alloc"},
                       [&] { mesh_.free(view); });
    EXPECT_EQ(error->rank(), 1);
  }
  expect_refused(ErrorCode::invalid_argument,
                 {"f32[4]", "is a view", "16 bytes from the start", "that alloc_stacked gave"},
                 [&] { mesh_.free(stack[2].slice(0, 4, 8)); });
  const DeviceTensor row = tensor.slice(0, 2, 3);
  mesh_.free(tensor);
  std::vector<float> host(8);
  expect_refused(ErrorCode::stale_tensor, {"upload", "freed"},
                 [&] { mesh_.upload(row, HostView(host.data(), {1, 8})); });
}

TEST_P(MeshResidency, RefusesTensorsOfNobodyAndOfOthers) {
  Mesh other = open();
  const DeviceTensor foreign = other.alloc(0, {4}, DType::f32);
  const StackedDeviceTensor foreign_stack = other.alloc_stacked({4, 4}, DType::f32);
  std::vector<float> host(16);
  expect_refused(ErrorCode::foreign_tensor, {"free", "another mesh"}, [&] { mesh_.free(foreign); });
  expect_refused(ErrorCode::foreign_tensor, {"free", "another mesh"},
                 [&] { mesh_.free(foreign_stack); });
  expect_refused(ErrorCode::foreign_tensor, {"upload"},
                 [&] { mesh_.upload(foreign, HostView(host.data(), {4})); });
  expect_refused(ErrorCode::foreign_tensor, {"download"},
                 [&] { mesh_.download(foreign_stack, MutableHostView(host.data(), {4, 4})); });
  expect_refused(ErrorCode::invalid_argument, {"free", "empty"},
                 [&] { mesh_.free(DeviceTensor()); });
  expect_refused(ErrorCode::invalid_argument, {"free", "empty"},
                 [&] { mesh_.free(StackedDeviceTensor()); });
  expect_refused(ErrorCode::invalid_argument, {"upload", "empty"},
                 [&] { mesh_.upload(DeviceTensor(), HostView(host.data(), {4})); });
  expect_refused(ErrorCode::invalid_argument, {"download", "empty"}, [&] {
    mesh_.download(StackedDeviceTensor(), MutableHostView(host.data(), {4, 4}));
  });
  EXPECT_EQ(other.stats().live_buffers, 5u);
}

TEST_P(MeshResidency, FreedMemoryIsUsedAgain) {
  const std::uint64_t reserved = [&] {
    mesh_.free(mesh_.alloc(0, {1'000'000}, DType::u8));
    return mesh_.stats().reserved_bytes;
  }();
  std::set<std::uint32_t> generations;
  for (int round = 0; round < 2000; ++round) {
    const DeviceTensor tensor = mesh_.alloc(0, {1'000'000}, DType::u8);
    EXPECT_TRUE(generations.insert(tensor.buffer().generation).second) << "a name was given twice";
    mesh_.free(tensor);
  }
  EXPECT_EQ(mesh_.stats().reserved_bytes, reserved);
  EXPECT_EQ(mesh_.stats().live_bytes, 0u);
}

TEST_P(MeshResidency, ManyChangesBetweenTwoRunsReachTheRank) {
  std::vector<DeviceTensor> kept;
  for (int i = 0; i < 20'000; ++i) {
    const DeviceTensor tensor = mesh_.alloc(0, {16}, DType::u8);
    if (i % 2000 == 0) {
      kept.push_back(tensor);
    } else {
      mesh_.free(tensor);
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::vector<std::uint8_t> host(16, static_cast<std::uint8_t>(i));
    mesh_.upload(kept[i], HostView(host.data(), {16}));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(values_of<std::uint8_t>(mesh_, kept[i]),
              std::vector<std::uint8_t>(16, static_cast<std::uint8_t>(i)));
  }
}

TEST_P(MeshResidency, CloseTellsWhatLeaked) {
  mesh_.alloc(0, {10}, DType::f32);
  const DeviceTensor freed = mesh_.alloc(1, {10}, DType::f32);
  mesh_.alloc_stacked({4, 10}, DType::u8);
  mesh_.free(freed);
  const CloseReport report = mesh_.close();
  EXPECT_EQ(report.leaked_buffers, 5u);
  EXPECT_EQ(report.leaked_bytes, 80u);
  EXPECT_EQ(report.drained_runs, 0u);
}

INSTANTIATE_TEST_SUITE_P(Links, MeshResidency, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
