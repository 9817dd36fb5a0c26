#include "tensor/view.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "rankcast/error.h"
#include "tensor/layout.h"

namespace rankcast::tensor {

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

std::size_t checked_dim(const detail::Layout& layout, int dim, const char* call) {
  if (dim < 0 || dim >= layout.dims) {
    refuse(layout.dims == 0
               ? fmt::format("{}: the tensor is empty: its handle names no buffer", call)
               : fmt::format("{}: there is no dimension {}: the tensor {} has dimensions 0 to {}",
                             call, dim, describe(layout), layout.dims - 1));
  }
  return static_cast<std::size_t>(dim);
}

std::uint64_t bytes_of(const detail::Layout& layout, std::int64_t elements) {
  return static_cast<std::uint64_t>(elements) * size_bytes(layout.dtype);
}

}  // namespace

View slice_of(const detail::Layout& layout, int dim, std::int64_t begin, std::int64_t end,
              std::int64_t step) {
  const std::size_t at = checked_dim(layout, dim, "slice");
  const std::int64_t extent = layout.shape[at];
  if (begin < 0 || begin >= end || end > extent || step < 1) {
    refuse(
        fmt::format("slice: elements {} to {} (exclusive) in steps of {} of dimension {} of {}; "
                    "wanted are 0 <= begin < end <= {} and a step of at least 1",
                    begin, end, step, dim, describe(layout), extent));
  }
  View view{layout, bytes_of(layout, begin * layout.strides[at])};
  view.layout.shape[at] = (end - begin - 1) / step + 1;
  // A single element is never stepped over: its stride stays, and cannot overflow.
  if (view.layout.shape[at] > 1) view.layout.strides[at] *= step;
  view.layout.extent_bytes = *extent_bytes_of(view.layout);
  return view;
}

View transpose_of(const detail::Layout& layout, int a, int b) {
  const std::size_t first = checked_dim(layout, a, "transpose");
  const std::size_t second = checked_dim(layout, b, "transpose");
  View view{layout, 0};
  std::swap(view.layout.shape[first], view.layout.shape[second]);
  std::swap(view.layout.strides[first], view.layout.strides[second]);
  return view;
}

View strided_of(const detail::Layout& layout, const Shape& shape,
                std::span<const std::int64_t> strides, std::int64_t offset) {
  if (layout.dims == 0) refuse("strided: the tensor is empty: its handle names no buffer");
  if (strides.size() != static_cast<std::size_t>(shape.dims())) {
    refuse(fmt::format("strided: {} strides for the {} extents of shape {}; one each is wanted",
                       strides.size(), shape.dims(), shape.to_string()));
  }
  const auto not_positive = std::ranges::find_if(strides, [](std::int64_t s) { return s < 1; });
  if (not_positive != strides.end()) {
    refuse(fmt::format("strided: stride {} of [{}] is {}; every stride must be positive",
                       not_positive - strides.begin(), fmt::join(strides, ", "), *not_positive));
  }
  shape.size_bytes(layout.dtype);  // throws when they overflow
  View view;
  view.layout.dtype = layout.dtype;
  view.layout.dims = static_cast<std::uint8_t>(shape.dims());
  std::ranges::copy(shape.extents(), view.layout.shape.begin());
  std::ranges::copy(strides, view.layout.strides.begin());
  const auto extent = extent_bytes_of(view.layout);
  const std::uint64_t room = layout.extent_bytes / size_bytes(layout.dtype);
  if (offset < 0 || static_cast<std::uint64_t>(offset) >= room || !extent ||
      *extent > layout.extent_bytes - bytes_of(layout, offset)) {
    refuse(
        fmt::format("strided: shape {} with strides [{}] from element {} on does not lie inside "
                    "of {}, which spans {} elements",
                    shape.to_string(), fmt::join(strides, ", "), offset, describe(layout), room));
  }
  view.layout.extent_bytes = *extent;
  view.offset_bytes = bytes_of(layout, offset);
  return view;
}

}  // namespace rankcast::tensor
