// Memory of the caller, described.
#pragma once

#include <cstdint>
#include <span>

#include "rankcast/api.h"
#include "rankcast/dtype.h"
#include "rankcast/shape.h"

namespace rankcast {

/// Row-major host memory without gaps that a call reads. Owns nothing: the memory must live, and
/// must not change, until the call that it is given to returns; every such call has finished
/// reading by then.
///
/// Throws `Error(invalid_argument)` when `data` is null or not aligned to its dtype, or when the
/// bytes overflow.
class RANKCAST_API HostView {
 public:
  HostView(const void* data, DType dtype, const Shape& shape);

  template <class T>
  HostView(const T* data, const Shape& shape) : HostView(data, dtype_of<T>(), shape) {}

  const void* data() const noexcept { return data_; }
  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  const void* data_;
  std::uint64_t size_bytes_;
  Shape shape_;
  DType dtype_;
};

/// The same for memory that a call writes. Nobody else may touch it until the call returns.
class RANKCAST_API MutableHostView {
 public:
  MutableHostView(void* data, DType dtype, const Shape& shape);

  template <class T>
  MutableHostView(T* data, const Shape& shape) : MutableHostView(data, dtype_of<T>(), shape) {}

  void* data() const noexcept { return data_; }
  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  void* data_;
  std::uint64_t size_bytes_;
  Shape shape_;
  DType dtype_;
};

}  // namespace rankcast
