// Walking strided tensors in row-major order.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/element.h"
#include "rankcast/dlpack.h"
#include "rankcast/shape.h"

namespace rankcast::kernels {

inline std::int64_t element_count(const DLTensor& tensor) {
  std::int64_t count = 1;
  for (std::int32_t dim = 0; dim < tensor.ndim; ++dim) count *= tensor.shape[dim];
  return count;
}

/// Whether the elements lie in row-major order without gaps.
inline bool is_dense(const DLTensor& tensor) {
  std::int64_t dense_stride = 1;
  for (std::int32_t dim = tensor.ndim - 1; dim >= 0; --dim) {
    const std::int64_t extent = tensor.shape[dim];
    if (extent != 1 && tensor.strides[dim] != dense_stride) return false;
    dense_stride *= extent;
  }
  return true;
}

/// A place among the elements of a tensor that moves in row-major order. Dimensions that follow
/// each other without a gap are taken as one, so that pieces are as long as they can be. A value;
/// the tensor is not needed after construction.
class Cursor {
 public:
  struct Piece {
    std::int64_t offset;  // of its first element, in elements from the tensor's first
    std::int64_t stride;
    std::int64_t count;
  };

  /// At element 0.
  explicit Cursor(const DLTensor& tensor);

  /// Goes to an element by its row-major number, less than the element count.
  void seek(std::int64_t element);

  /// The next elements that have one stride between them, at most `most` (positive). Only while
  /// elements are left.
  Piece take(std::int64_t most);

  /// Takes pieces until they have `count` elements together. Only while that many are left.
  template <class F>
  void take_all(std::int64_t count, F&& f) {
    while (count > 0) {
      const Piece piece = take(count);
      f(piece);
      count -= piece.count;
    }
  }

 private:
  struct Dim {
    std::int64_t extent;
    std::int64_t stride;
    std::int64_t index;
  };

  std::array<Dim, kMaxDims> dims_;
  int last_ = 0;  // index of the fastest dimension in use
  std::int64_t offset_ = 0;
};

template <class Word>
void copy_elements(Word* to, std::int64_t to_stride, const Word* from, std::int64_t from_stride,
                   std::int64_t count) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Word));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
}

/// Copies the next `count` elements of `cursor` over the tensor at `from` to dense memory at `to`.
template <class Word>
void gather(const Word* from, Cursor& cursor, std::int64_t count, Word* to) {
  cursor.take_all(count, [&](const Cursor::Piece& piece) {
    copy_elements(to, 1, from + piece.offset, piece.stride, piece.count);
    to += piece.count;
  });
}

/// The inverse of gather.
template <class Word>
void scatter(Word* to, Cursor& cursor, std::int64_t count, const Word* from) {
  cursor.take_all(count, [&](const Cursor::Piece& piece) {
    copy_elements(to + piece.offset, piece.stride, from, 1, piece.count);
    from += piece.count;
  });
}

}  // namespace rankcast::kernels
