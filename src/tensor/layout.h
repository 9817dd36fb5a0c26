// Layouts: dtype, shape and strides of one tensor as one plain value that crosses links
// (`detail::Layout`).
//
// Pure functions; any thread. None allocates but `describe`, and those that throw say so. All but
// `is_valid` and `extent_bytes_of` expect a valid layout, or that of an empty handle (no dims).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rankcast/dlpack.h"
#include "rankcast/dtype.h"
#include "rankcast/shape.h"
#include "rankcast/tensor.h"

namespace rankcast::tensor {

/// Row-major layout without gaps. Throws `Error(invalid_argument)` when `dtype` is no DType or the
/// bytes do not fit 63 bits.
detail::Layout contiguous_layout(DType dtype, const Shape& shape);

/// The layout's extents. Throws `Error(invalid_argument)` when it has none (that of an empty
/// handle).
Shape layout_shape(const detail::Layout& layout);

/// Bytes of its elements, gaps not counted. The layout must be valid, or empty (then 0).
std::uint64_t layout_size_bytes(const detail::Layout& layout) noexcept;

/// From the first byte to the byte after the last, which `extent_bytes` holds of a valid layout;
/// nothing when that does not fit 63 bits. Needs a DType, and positive extents and strides.
std::optional<std::uint64_t> extent_bytes_of(const detail::Layout& layout) noexcept;

/// True when its elements lie in row-major order without gaps: its bytes can be copied in one
/// piece.
bool is_contiguous(const detail::Layout& layout) noexcept;

/// True when nothing in it contradicts itself: a DType, 1 to 8 positive extents and strides, unused
/// and reserved fields 0, products that fit 63 bits, and the extent in bytes that follows from
/// them. For layouts that crossed a link.
bool is_valid(const detail::Layout& layout) noexcept;

/// True when their elements correspond: equal dtype and extents, any strides.
bool same_shape(const detail::Layout& a, const detail::Layout& b) noexcept;

/// Equal layouts have equal hashes. The same in every process of one build.
std::uint64_t layout_hash(const detail::Layout& layout) noexcept;

/// For messages: "f32[8, 16]", with strides when there are gaps: "f32[8, 16] strides [32, 1]".
std::string describe(const detail::Layout& layout);

/// The type as DLPack writes it, one lane. `dtype` must be a DType.
DLDataType to_dl(DType dtype) noexcept;

/// The inverse of `to_dl`; nothing for what no DType is.
std::optional<DType> from_dl(DLDataType type) noexcept;

}  // namespace rankcast::tensor
