#include "rankcast/tensor.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tensor/layout.h"
#include "tensor/tensor_access.h"

namespace rankcast {
namespace {

using detail::Shard;
using detail::TensorAccess;
using test::expect_error;

constexpr std::uint64_t kMesh = 7;

DeviceTensor device_tensor() {
  return TensorAccess::make(kMesh, Shard{.slot = 5, .generation = 9, .rank = 2}, 512,
                            tensor::contiguous_layout(DType::f32, Shape{8, 16}));
}

// Three shards on ranks 4, 0 and 2 of 6.
StackedDeviceTensor stacked_tensor() {
  return TensorAccess::make_stacked(
      kMesh, tensor::contiguous_layout(DType::i16, Shape{5}),
      {Shard{.slot = 1, .generation = 1, .rank = 4}, Shard{.slot = 2, .generation = 3, .rank = 0},
       Shard{.slot = 3, .generation = 5, .rank = 2}},
      6);
}

TEST(DeviceTensorTest, EmptyNamesNothing) {
  const DeviceTensor tensor;
  EXPECT_TRUE(tensor.empty());
  EXPECT_EQ(tensor.rank(), -1);
  EXPECT_EQ(tensor.dims(), 0);
  EXPECT_EQ(tensor.size_bytes(), 0U);
  EXPECT_TRUE(tensor.strides().empty());
  EXPECT_EQ(tensor.buffer(), BufferId{});
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { (void)tensor.shape(); });
}

TEST(DeviceTensorTest, TellsWhatItWasMadeOf) {
  const DeviceTensor tensor = device_tensor();
  EXPECT_FALSE(tensor.empty());
  EXPECT_EQ(tensor.rank(), 2);
  EXPECT_EQ(tensor.dtype(), DType::f32);
  EXPECT_EQ(tensor.shape(), (Shape{8, 16}));
  EXPECT_EQ(tensor.dims(), 2);
  EXPECT_EQ(tensor.strides()[0], 16);
  EXPECT_EQ(tensor.strides()[1], 1);
  EXPECT_EQ(tensor.size_bytes(), 512U);
  EXPECT_EQ(tensor.buffer(), (BufferId{.mesh = kMesh, .rank = 2, .slot = 5, .generation = 9}));
  EXPECT_EQ(TensorAccess::mesh(tensor), kMesh);
  EXPECT_EQ(TensorAccess::offset_bytes(tensor), 512U);
  EXPECT_EQ(TensorAccess::shard(tensor).slot, 5U);
}

TEST(StackedDeviceTensorTest, EmptyNamesNothing) {
  const StackedDeviceTensor tensor;
  EXPECT_TRUE(tensor.empty());
  EXPECT_EQ(tensor.shard_count(), 0);
  EXPECT_EQ(tensor.size_bytes(), 0U);
  EXPECT_EQ(TensorAccess::data(tensor), nullptr);
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { (void)tensor.shape(); });
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { (void)tensor.dtype(); });
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { (void)tensor[0]; });
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { (void)tensor.rank_of(0); });
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { (void)tensor.shard_on(0); });
}

TEST(StackedDeviceTensorTest, IndexIsByShardAndShardOnByRank) {
  const StackedDeviceTensor tensor = stacked_tensor();
  EXPECT_EQ(tensor.shape(), (Shape{3, 5}));
  EXPECT_EQ(tensor.dtype(), DType::i16);
  EXPECT_EQ(tensor.shard_count(), 3);
  EXPECT_EQ(tensor.size_bytes(), 30U);
  const int ranks[] = {4, 0, 2};
  for (int shard = 0; shard < 3; ++shard) {
    const int rank = ranks[shard];
    EXPECT_EQ(tensor.rank_of(shard), rank);
    EXPECT_EQ(tensor[shard].rank(), rank);
    EXPECT_EQ(tensor[shard].shape(), Shape{5});
    EXPECT_EQ(tensor[shard].size_bytes(), 10U);
    EXPECT_EQ(tensor[shard].buffer().slot, static_cast<std::uint32_t>(shard + 1));
    EXPECT_EQ(tensor.shard_on(rank).buffer(), tensor[shard].buffer());
  }
}

TEST(StackedDeviceTensorTest, ShardOutOfRangeIsRefused) {
  const StackedDeviceTensor tensor = stacked_tensor();
  for (const int shard : {-1, 3, 1 << 30}) {
    const std::string number = "no shard " + std::to_string(shard);
    expect_error(ErrorCode::invalid_argument, {number, "i16[3, 5]", "0 to 2"},
                 [&] { (void)tensor[shard]; });
    expect_error(ErrorCode::invalid_argument, {number}, [&] { (void)tensor.rank_of(shard); });
  }
}

TEST(StackedDeviceTensorTest, RankWithoutShardIsWrong) {
  const StackedDeviceTensor tensor = stacked_tensor();
  for (const int rank : {-1, 1, 5, 6, 1 << 30}) {
    const auto error = test::error_of([&] { (void)tensor.shard_on(rank); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::wrong_rank);
    EXPECT_EQ(error->rank(), rank);
    EXPECT_THAT(error->what(), testing::HasSubstr("rank " + std::to_string(rank)));
  }
}

TEST(StackedDeviceTensorTest, CopiesShareTheirParts) {
  const StackedDeviceTensor tensor = stacked_tensor();
  StackedDeviceTensor copy;
  copy = tensor;
  EXPECT_EQ(TensorAccess::data(tensor), TensorAccess::data(copy));
  EXPECT_EQ(TensorAccess::shared_data(tensor).get(), TensorAccess::data(copy));
}

TEST(StackedDeviceTensorTest, ShapesThatCannotBeStackedAreRefused) {
  const auto stack = [](const Shape& tail) {
    TensorAccess::make_stacked(kMesh, tensor::contiguous_layout(DType::u8, tail),
                               {Shard{.slot = 0, .generation = 1, .rank = 0},
                                Shard{.slot = 0, .generation = 1, .rank = 1}},
                               2);
  };
  expect_error(ErrorCode::invalid_argument, {"9 extents"},
               [&] { stack(Shape{1, 1, 1, 1, 1, 1, 1, 1}); });
  expect_error(ErrorCode::invalid_argument, {"overflows"}, [&] { stack(Shape{INT64_MAX}); });
}

TEST(StackedDeviceTensorDeathTest, TwoShardsOnOneRankAreOurBug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(TensorAccess::make_stacked(kMesh, tensor::contiguous_layout(DType::u8, Shape{1}),
                                          {Shard{.slot = 0, .generation = 1, .rank = 1},
                                           Shard{.slot = 1, .generation = 1, .rank = 1}},
                                          2),
               "check failed");
}

}  // namespace
}  // namespace rankcast
