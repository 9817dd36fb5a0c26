#include "tensor/pieces.h"

#include <algorithm>

#include "base/check.h"
#include "rankcast/dtype.h"
#include "tensor/layout.h"

namespace rankcast::tensor {

Pieces::Pieces(const detail::Layout& layout, std::uint64_t most_bytes) noexcept {
  RC_CHECK(layout.dims > 0 && most_bytes >= 8);
  layout_.dtype = layout.dtype;
  layout_.dims = 1;
  layout_.shape[0] = layout.shape[0];
  layout_.strides[0] = layout.strides[0];
  for (std::size_t dim = 1; dim < layout.dims; ++dim) {
    const std::size_t last = layout_.dims - std::size_t{1};
    const std::int64_t extent = layout.shape[dim];
    const std::int64_t stride = layout.strides[dim];
    if (extent == 1) continue;
    if (layout_.shape[last] == 1 || layout_.strides[last] == extent * stride) {
      layout_.shape[last] *= extent;
      layout_.strides[last] = stride;
    } else {
      layout_.shape[layout_.dims] = extent;
      layout_.strides[layout_.dims++] = stride;
    }
  }
  std::uint64_t inner_bytes = layout_size_bytes(layout_);
  for (cut_ = 0;; ++cut_) {
    inner_bytes /= static_cast<std::uint64_t>(layout_.shape[cut_]);
    if (inner_bytes <= most_bytes) break;
  }
  most_ = static_cast<std::int64_t>(most_bytes / inner_bytes);
}

Pieces::Piece Pieces::next() noexcept {
  RC_DCHECK(!done_);
  Piece piece{layout_, 0, packed_bytes_};
  std::int64_t offset = 0;
  for (std::size_t dim = 0; dim <= cut_; ++dim) {
    offset += index_[dim] * layout_.strides[dim];
    if (dim < cut_) piece.layout.shape[dim] = 1;
  }
  std::int64_t& at = index_[cut_];
  const std::int64_t count = std::min(most_, layout_.shape[cut_] - at);
  piece.layout.shape[cut_] = count;
  piece.layout.extent_bytes = *extent_bytes_of(piece.layout);
  piece.offset_bytes = static_cast<std::uint64_t>(offset) * size_bytes(layout_.dtype);
  packed_bytes_ += layout_size_bytes(piece.layout);

  at += count;
  for (std::size_t dim = cut_; index_[dim] == layout_.shape[dim]; --dim) {
    if (dim == 0) {
      done_ = true;
      break;
    }
    index_[dim] = 0;
    ++index_[dim - 1];
  }
  return piece;
}

}  // namespace rankcast::tensor
