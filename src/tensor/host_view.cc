#include "rankcast/host_view.h"

#include <fmt/core.h>

#include "rankcast/error.h"

namespace rankcast {

namespace {

std::uint64_t checked_size_bytes(const void* data, DType dtype, const Shape& shape) {
  const std::uint64_t bytes = shape.size_bytes(dtype);
  if (data == nullptr) {
    throw Error(ErrorCode::invalid_argument, fmt::format("host view of {}{}: the pointer is null",
                                                         dtype_name(dtype), shape.to_string()));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t alignment = size_bytes(dtype);
  if (address % alignment != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("host view of {}{}: the pointer must be a multiple of {} bytes, and it "
                            "is {} beyond one; copy the data to aligned memory",
                            dtype_name(dtype), shape.to_string(), alignment, address % alignment));
  }
  if (bytes - 1 > UINTPTR_MAX - address) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("host view of {}{}: {} bytes from the pointer on pass the end of the "
                            "address space",
                            dtype_name(dtype), shape.to_string(), bytes));
  }
  return bytes;
}

}  // namespace

HostView::HostView(const void* data, DType dtype, const Shape& shape)
    : data_(data),
      size_bytes_(checked_size_bytes(data, dtype, shape)),
      shape_(shape),
      dtype_(dtype) {}

MutableHostView::MutableHostView(void* data, DType dtype, const Shape& shape)
    : data_(data),
      size_bytes_(checked_size_bytes(data, dtype, shape)),
      shape_(shape),
      dtype_(dtype) {}

}  // namespace rankcast
