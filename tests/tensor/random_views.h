// Random views of random tensors, made as users make them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "rankcast/tensor.h"
#include "tensor/layout.h"
#include "tensor/tensor_access.h"

namespace rankcast::test {

class RandomViews {
 public:
  explicit RandomViews(std::uint64_t seed) : random_(seed) {}

  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  DType dtype() {
    constexpr DType kChoices[] = {DType::f64, DType::f32, DType::i16, DType::u8};
    return kChoices[number(0, 3)];
  }

  /// Row-major, up to `most_dims` dimensions of up to `most_extent`, up to `most_elements`.
  DeviceTensor base(int most_dims, std::int64_t most_extent, std::int64_t most_elements) {
    std::vector<std::int64_t> extents;
    std::int64_t left = most_elements;
    for (std::int64_t dims = number(1, most_dims); dims > 0; --dims) {
      extents.push_back(number(1, std::min(most_extent, left)));
      left /= extents.back();
    }
    const Shape shape{std::span<const std::int64_t>(extents)};
    return detail::TensorAccess::make(1, {.slot = 0, .generation = 1, .rank = 0}, 0,
                                      tensor::contiguous_layout(dtype(), shape));
  }

  /// Slices and transposes of `tensor`.
  DeviceTensor sliced(DeviceTensor tensor) {
    for (std::int64_t steps = number(0, 5); steps > 0; --steps) {
      const int dim = static_cast<int>(number(0, tensor.dims() - 1));
      if (number(0, 3) == 0) {
        tensor = tensor.transpose(dim, static_cast<int>(number(0, tensor.dims() - 1)));
      } else {
        const std::int64_t extent = tensor.shape()[dim];
        const std::int64_t begin = number(0, extent - 1);
        const std::int64_t end = number(begin + 1, extent);
        tensor = tensor.slice(dim, begin, end, number(1, number(0, 1) == 0 ? 1 : 4));
      }
    }
    return tensor;
  }

  /// Any strides inside of `tensor`, which is dense; elements may share bytes.
  DeviceTensor strided(const DeviceTensor& tensor) {
    const std::int64_t room = tensor.shape().element_count();
    const std::int64_t offset = number(0, room - 1);
    std::int64_t left = room - offset - 1;
    std::vector<std::int64_t> extents;
    std::vector<std::int64_t> strides;
    for (std::int64_t dims = number(1, 4); dims > 0; --dims) {
      const std::int64_t stride = number(1, std::max<std::int64_t>(1, left / 2));
      const std::int64_t extent = number(1, std::min<std::int64_t>(6, left / stride + 1));
      extents.push_back(extent);
      strides.push_back(stride);
      left -= (extent - 1) * stride;
    }
    return tensor.strided(Shape(std::span<const std::int64_t>(extents)), strides, offset);
  }

 private:
  std::mt19937_64 random_;
};

/// Calls `visit(offset)` for each element in row-major order: bytes from the layout's first.
template <class Visit>
void each_element(const detail::Layout& layout, Visit&& visit) {
  std::array<std::int64_t, kMaxDims> index{};
  const std::int64_t item = static_cast<std::int64_t>(size_bytes(layout.dtype));
  for (;;) {
    std::int64_t element = 0;
    for (std::size_t dim = 0; dim < layout.dims; ++dim) element += index[dim] * layout.strides[dim];
    visit(static_cast<std::size_t>(element * item));
    std::size_t dim = layout.dims;
    while (dim > 0 && ++index[dim - 1] == layout.shape[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

}  // namespace rankcast::test
