// Random tensors for properties.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/host_call.h"

namespace rankcast::kernels {

/// One to eight extents, small enough together for a plain loop.
inline std::vector<std::int64_t> any_shape() {
  const auto dims = *rc::gen::inRange<std::size_t>(1, 9);
  std::int64_t left = 3000;
  std::vector<std::int64_t> shape;
  for (std::size_t dim = 0; dim < dims; ++dim) {
    const std::int64_t most = std::min<std::int64_t>(left, dims > 3 ? 5 : 80);
    shape.push_back(*rc::gen::inRange<std::int64_t>(1, most + 1));
    left /= shape.back();
  }
  return shape;
}

/// A tensor of that shape: dense in a third of the cases, else its dimensions in any order, each
/// with a gap or without.
inline HostTensor any_tensor(DType dtype, const std::vector<std::int64_t>& shape) {
  const auto lead = *rc::gen::inRange<std::size_t>(0, 6);
  HostTensor tensor = HostTensor::dense(dtype, shape, lead);
  if (*rc::gen::inRange(0, 3) != 0) {
    std::vector<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      std::swap(order[i], order[*rc::gen::inRange(i, order.size())]);
    }
    std::vector<std::int64_t> strides(shape.size());
    std::int64_t stride = *rc::gen::inRange<std::int64_t>(1, 4);
    for (const std::size_t dim : order) {
      strides[dim] = stride;
      stride = stride * shape[dim] + *rc::gen::inRange<std::int64_t>(0, 2);
    }
    tensor = HostTensor(dtype, shape, strides, lead);
  }
  tensor.randomize(*rc::gen::arbitrary<std::uint64_t>());
  return tensor;
}

inline DType any_dtype() {
  return *rc::gen::elementOf(std::vector<DType>(std::begin(kAllDTypes), std::end(kAllDTypes)));
}

}  // namespace rankcast::kernels
