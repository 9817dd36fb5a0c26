#include "tensor/layout.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <span>

#include "base/check.h"
#include "rankcast/error.h"

namespace rankcast::tensor {

namespace {

std::span<const std::int64_t> extents_of(const detail::Layout& layout) {
  return {layout.shape.data(), layout.dims};
}

std::span<const std::int64_t> strides_of(const detail::Layout& layout) {
  return {layout.strides.data(), layout.dims};
}

// The last step of splitmix64: every bit of the input moves every bit of the result.
std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31);
}

}  // namespace

detail::Layout contiguous_layout(DType dtype, const Shape& shape) {
  detail::Layout layout;
  layout.extent_bytes = shape.size_bytes(dtype);
  layout.dtype = dtype;
  layout.dims = static_cast<std::uint8_t>(shape.dims());
  std::int64_t stride = 1;
  for (std::size_t dim = layout.dims; dim-- > 0;) {
    layout.shape[dim] = shape.extents()[dim];
    layout.strides[dim] = stride;
    stride *= layout.shape[dim];
  }
  return layout;
}

Shape layout_shape(const detail::Layout& layout) {
  if (layout.dims == 0) {
    throw Error(ErrorCode::invalid_argument,
                "the tensor is empty: its handle names no buffer and has no shape");
  }
  RC_CHECK(layout.dims <= kMaxDims);
  return Shape(extents_of(layout));
}

std::optional<std::uint64_t> extent_bytes_of(const detail::Layout& layout) noexcept {
  std::int64_t last = 0;
  for (std::size_t dim = 0; dim < layout.dims; ++dim) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(layout.shape[dim] - 1, layout.strides[dim], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  const auto item = static_cast<std::int64_t>(size_bytes(layout.dtype));
  std::int64_t bytes = 0;
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, item, &bytes)) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes);
}

std::uint64_t layout_size_bytes(const detail::Layout& layout) noexcept {
  if (layout.dims == 0) return 0;
  std::uint64_t bytes = size_bytes(layout.dtype);
  for (const std::int64_t extent : extents_of(layout)) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

bool is_contiguous(const detail::Layout& layout) noexcept {
  std::int64_t stride = 1;
  for (std::size_t dim = layout.dims; dim-- > 0;) {
    // The stride of a single element is never used, so it may be anything.
    if (layout.shape[dim] != 1 && layout.strides[dim] != stride) return false;
    stride *= layout.shape[dim];
  }
  return true;
}

bool is_valid(const detail::Layout& layout) noexcept {
  if (!rankcast::is_valid(layout.dtype) || layout.dims < 1 || layout.dims > kMaxDims) return false;
  if (layout.reserved != decltype(layout.reserved){}) return false;
  std::int64_t count = static_cast<std::int64_t>(size_bytes(layout.dtype));
  for (std::size_t dim = 0; dim < kMaxDims; ++dim) {
    const std::int64_t extent = layout.shape[dim];
    const std::int64_t stride = layout.strides[dim];
    if (dim >= layout.dims) {
      if (extent != 0 || stride != 0) return false;
    } else if (extent <= 0 || stride <= 0 || __builtin_mul_overflow(count, extent, &count)) {
      return false;
    }
  }
  return extent_bytes_of(layout) == layout.extent_bytes;
}

bool same_shape(const detail::Layout& a, const detail::Layout& b) noexcept {
  return a.dtype == b.dtype && a.dims == b.dims && a.shape == b.shape;
}

std::uint64_t layout_hash(const detail::Layout& layout) noexcept {
  std::uint64_t hash =
      mixed((std::uint64_t{layout.dims} << 8) | static_cast<std::uint64_t>(layout.dtype));
  for (std::size_t dim = 0; dim < layout.dims; ++dim) {
    hash = mixed(hash + static_cast<std::uint64_t>(layout.shape[dim]));
    hash = mixed(hash + static_cast<std::uint64_t>(layout.strides[dim]));
  }
  return hash;
}

std::string describe(const detail::Layout& layout) {
  if (layout.dims == 0) return "empty";
  std::string text =
      fmt::format("{}[{}]", dtype_name(layout.dtype), fmt::join(extents_of(layout), ", "));
  if (!is_contiguous(layout)) {
    text += fmt::format(" strides [{}]", fmt::join(strides_of(layout), ", "));
  }
  return text;
}

DLDataType to_dl(DType dtype) noexcept {
  const auto type = [dtype](DLDataTypeCode code) {
    return DLDataType{.code = static_cast<std::uint8_t>(code),
                      .bits = static_cast<std::uint8_t>(8 * size_bytes(dtype)),
                      .lanes = 1};
  };
  switch (dtype) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
      return type(kDLFloat);
    case DType::bf16:
      return type(kDLBfloat);
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
      return type(kDLInt);
    case DType::u8:
      return type(kDLUInt);
    case DType::boolean:
      return type(kDLBool);
  }
  RC_CHECK(false && "no dtype");
  return {};
}

std::optional<DType> from_dl(DLDataType type) noexcept {
  for (int value = 1; value <= kDTypeCount; ++value) {
    const auto dtype = static_cast<DType>(value);
    const DLDataType candidate = to_dl(dtype);
    if (candidate.code == type.code && candidate.bits == type.bits &&
        candidate.lanes == type.lanes) {
      return dtype;
    }
  }
  return std::nullopt;
}

}  // namespace rankcast::tensor
