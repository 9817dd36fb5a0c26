#include "device/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "support/seed.h"
#include "tensor/random_views.h"

namespace rankcast::device {
namespace {

using detail::Layout;
using detail::TensorAccess;

// Both in row-major order: the n-th element of the one goes to the n-th of the other.
void copy_slowly(std::byte* to, const Layout& to_layout, const std::byte* from,
                 const Layout& from_layout) {
  std::vector<std::size_t> places;
  test::each_element(from_layout, [&](std::size_t offset) { places.push_back(offset); });
  std::size_t next = 0;
  test::each_element(to_layout, [&](std::size_t offset) {
    std::memcpy(to + offset, from + places[next++], size_bytes(to_layout.dtype));
  });
}

// A view of the wanted shape in a tensor that may be larger, turned, or have gaps.
DeviceTensor place_for(test::RandomViews& random, const Shape& shape, DType dtype) {
  std::vector<int> order(static_cast<std::size_t>(shape.dims()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    const auto other = static_cast<std::size_t>(random.number(0, static_cast<std::int64_t>(i)));
    if (random.number(0, 1) == 0) std::swap(order[i], order[other]);
  }
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> steps;
  for (const int dim : order) {
    steps.push_back(random.number(0, 2) == 0 ? random.number(1, 3) : 1);
    extents.push_back(shape[dim] * steps.back() + (random.number(0, 2) == 0 ? 2 : 0));
  }
  DeviceTensor tensor = TensorAccess::make(
      1, {.slot = 0, .generation = 1, .rank = 0}, 0,
      tensor::contiguous_layout(dtype, Shape(std::span<const std::int64_t>(extents))));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t extent = shape[order[i]];
    const std::int64_t begin = random.number(0, extents[i] - ((extent - 1) * steps[i] + 1));
    tensor =
        tensor.slice(static_cast<int>(i), begin, begin + (extent - 1) * steps[i] + 1, steps[i]);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    while (order[i] != static_cast<int>(i)) {
      const auto other = static_cast<std::size_t>(order[i]);
      tensor = tensor.transpose(static_cast<int>(i), order[i]);
      std::swap(order[i], order[other]);
    }
  }
  EXPECT_EQ(tensor.shape(), shape);
  return tensor;
}

TEST(CopyElements, AnyLayoutToAnyOther) {
  test::RandomViews random(test::test_seed());
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::int64_t> extents;
    for (std::int64_t dims = random.number(1, 4); dims > 0; --dims)
      extents.push_back(random.number(1, 5));
    const Shape shape{std::span<const std::int64_t>(extents)};
    const auto dtype = static_cast<DType>(random.number(1, kDTypeCount));
    const DeviceTensor to = place_for(random, shape, dtype);
    const DeviceTensor from = place_for(random, shape, dtype);
    const Layout& to_layout = TensorAccess::layout(to);
    const Layout& from_layout = TensorAccess::layout(from);
    std::vector<std::byte> source(from_layout.extent_bytes);
    for (std::byte& byte : source) byte = static_cast<std::byte>(random.number(0, 255));
    std::vector<std::byte> expected(to_layout.extent_bytes, std::byte{0xEE});
    std::vector<std::byte> found = expected;
    copy_slowly(expected.data(), to_layout, source.data(), from_layout);
    copy_elements({found.data(), &to_layout, source.data(), &from_layout});
    ASSERT_EQ(found, expected) << "round " << round << ": " << tensor::describe(from_layout)
                               << " to " << tensor::describe(to_layout);
  }
}

// A destination whose elements share bytes ends with one of the values.
TEST(CopyElements, SharedBytesGetOneOfTheirValues) {
  Layout windows = tensor::contiguous_layout(DType::i16, Shape{2, 3});
  windows.strides = {1, 1};
  windows.extent_bytes = *tensor::extent_bytes_of(windows);
  const Layout dense = tensor::contiguous_layout(DType::i16, Shape{2, 3});
  const std::int16_t from[6] = {1, 2, 3, 4, 5, 6};
  std::int16_t to[4] = {};
  copy_elements({to, &windows, from, &dense});
  EXPECT_EQ(to[0], 1);
  EXPECT_TRUE(to[1] == 2 || to[1] == 4);
  EXPECT_TRUE(to[2] == 3 || to[2] == 5);
  EXPECT_EQ(to[3], 6);
}

}  // namespace
}  // namespace rankcast::device
