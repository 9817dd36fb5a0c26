#include "kernels/strided.h"

#include <algorithm>

namespace rankcast::kernels {

Cursor::Cursor(const DLTensor& tensor) {
  dims_[0] = {.extent = 1, .stride = 1, .index = 0};
  bool any = false;
  for (std::int32_t dim = 0; dim < tensor.ndim; ++dim) {
    const std::int64_t extent = tensor.shape[dim];
    const std::int64_t stride = tensor.strides[dim];
    if (extent == 1) continue;
    Dim& slower = dims_[static_cast<std::size_t>(last_)];
    if (any && slower.stride == extent * stride) {
      slower.extent *= extent;
      slower.stride = stride;
      continue;
    }
    if (any) ++last_;
    dims_[static_cast<std::size_t>(last_)] = {.extent = extent, .stride = stride, .index = 0};
    any = true;
  }
}

void Cursor::seek(std::int64_t element) {
  offset_ = 0;
  for (int d = last_; d >= 0; --d) {
    Dim& dim = dims_[static_cast<std::size_t>(d)];
    dim.index = element % dim.extent;
    element /= dim.extent;
    offset_ += dim.index * dim.stride;
  }
}

Cursor::Piece Cursor::take(std::int64_t most) {
  Dim& fastest = dims_[static_cast<std::size_t>(last_)];
  const Piece piece = {.offset = offset_,
                       .stride = fastest.stride,
                       .count = std::min(most, fastest.extent - fastest.index)};
  fastest.index += piece.count;
  offset_ += piece.count * fastest.stride;
  for (int d = last_; d > 0; --d) {
    Dim& full = dims_[static_cast<std::size_t>(d)];
    if (full.index < full.extent) break;
    Dim& slower = dims_[static_cast<std::size_t>(d - 1)];
    full.index = 0;
    ++slower.index;
    offset_ += slower.stride - full.extent * full.stride;
  }
  return piece;
}

}  // namespace rankcast::kernels
