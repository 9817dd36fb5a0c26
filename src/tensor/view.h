// Views: other layouts over the memory of a tensor, as `DeviceTensor` and `ArgumentRef` make them.
//
// Pure functions; any thread; no allocation but for messages. Each throws `Error(invalid_argument)`
// with all numbers, and expects a valid layout or that of an empty handle (which it refuses). What
// they return is valid and lies inside of the extent of the layout given.
#pragma once

#include <cstdint>
#include <span>

#include "rankcast/shape.h"
#include "rankcast/tensor.h"

namespace rankcast::tensor {

/// A layout and where it begins.
struct View {
  detail::Layout layout;
  std::uint64_t offset_bytes = 0;  // from the first byte of the layout it was made of
};

/// Elements `begin`, `begin + step`, ... below `end` of dimension `dim`; all of the others.
View slice_of(const detail::Layout& layout, int dim, std::int64_t begin, std::int64_t end,
              std::int64_t step);

/// Dimensions `a` and `b` change places.
View transpose_of(const detail::Layout& layout, int a, int b);

/// Any positive strides, from the `offset`-th element behind the first on, in the memory between
/// the first byte and the last. Elements may share bytes.
View strided_of(const detail::Layout& layout, const Shape& shape,
                std::span<const std::int64_t> strides, std::int64_t offset);

}  // namespace rankcast::tensor
