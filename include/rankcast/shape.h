// The extents of a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "rankcast/api.h"
#include "rankcast/dtype.h"

namespace rankcast {

inline constexpr int kMaxDims = 8;

/// One to eight positive extents, in elements, slowest first. A value; copying allocates nothing.
///
/// Throws `Error(invalid_argument)` naming the extent at fault when there is none or are more than
/// eight, when an extent is not positive, or when their product does not fit 63 bits.
class RANKCAST_API Shape {
 public:
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  int dims() const noexcept { return dims_; }
  std::int64_t operator[](int dim) const noexcept {
    return extents_[static_cast<std::size_t>(dim)];
  }
  std::span<const std::int64_t> extents() const noexcept {
    return {extents_.data(), static_cast<std::size_t>(dims_)};
  }

  /// Number of elements.
  std::int64_t element_count() const noexcept { return element_count_; }

  /// Bytes of that many elements without gaps. Throws `Error(invalid_argument)` when they do not
  /// fit 63 bits or `dtype` is no DType.
  std::uint64_t size_bytes(DType dtype) const;

  /// This shape without its first extent. Throws when there is only one.
  Shape tail() const;

  /// This shape with `extent` put before its first.
  Shape prepended(std::int64_t extent) const;

  /// "[8, 16]".
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return a.dims_ == b.dims_ && a.extents_ == b.extents_;
  }

 private:
  void assign(std::span<const std::int64_t> extents);

  std::array<std::int64_t, kMaxDims> extents_{};  // unused ones are 0
  std::int64_t element_count_ = 0;
  int dims_ = 0;
};

}  // namespace rankcast
