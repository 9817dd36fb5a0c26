// A tensor cut into boxes of limited size, for memory that holds no more at once.
//
// A value; allocates nothing; throws nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rankcast/tensor.h"

namespace rankcast::tensor {

/// The elements of a layout in row-major order, box by box: packed one after another, the boxes are
/// the dense tensor. Each is as large as an outer dimension allows: more than half of the limit,
/// unless it is all that is left of that dimension.
class Pieces {
 public:
  struct Piece {
    detail::Layout layout;
    std::uint64_t offset_bytes = 0;  // from the layout's first byte
    std::uint64_t packed_bytes = 0;  // of the elements before it
  };

  /// `layout` must be valid, `most_bytes` at least 8.
  Pieces(const detail::Layout& layout, std::uint64_t most_bytes) noexcept;

  bool done() const noexcept { return done_; }
  /// The next one; only while not `done`.
  Piece next() noexcept;

 private:
  detail::Layout layout_;  // dimensions that follow each other without a gap are one
  std::size_t cut_ = 0;    // the dimension that is cut; outer ones go index by index
  std::int64_t most_ = 0;  // elements of it at once
  std::array<std::int64_t, kMaxDims> index_{};
  std::uint64_t packed_bytes_ = 0;
  bool done_ = false;
};

}  // namespace rankcast::tensor
