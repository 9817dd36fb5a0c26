// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rankcast/api.h"

namespace rankcast {

/// The type of a tensor's elements. The numbers are part of the frame format: never reorder them.
enum class DType : std::uint8_t {
  f64 = 1,
  f32,
  f16,   ///< IEEE 754 half precision.
  bf16,  ///< The upper 16 bits of an f32.
  i64,
  i32,
  i16,
  i8,
  u8,
  boolean,  ///< One byte an element, 0 or 1. Its name is "bool".
};

inline constexpr int kDTypeCount = 10;

/// Bytes of one element; also the alignment that its memory must have. 0 for a value that is no
/// DType.
constexpr std::size_t size_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

/// True for the ten values of DType.
constexpr bool is_valid(DType dtype) noexcept { return size_bytes(dtype) != 0; }

/// "f32", "bf16", "bool", ...; "unknown" for a value that is no DType. Static storage.
RANKCAST_API std::string_view dtype_name(DType dtype) noexcept;

/// The inverse of `dtype_name`; nothing for a name nobody has.
RANKCAST_API std::optional<DType> dtype_from_name(std::string_view name) noexcept;

/// The DType of a C++ element type: `dtype_of<float>()`.
template <class T>
constexpr DType dtype_of() noexcept;
template <>
constexpr DType dtype_of<double>() noexcept {
  return DType::f64;
}
template <>
constexpr DType dtype_of<float>() noexcept {
  return DType::f32;
}
template <>
constexpr DType dtype_of<std::int64_t>() noexcept {
  return DType::i64;
}
template <>
constexpr DType dtype_of<std::int32_t>() noexcept {
  return DType::i32;
}
template <>
constexpr DType dtype_of<std::int16_t>() noexcept {
  return DType::i16;
}
template <>
constexpr DType dtype_of<std::int8_t>() noexcept {
  return DType::i8;
}
template <>
constexpr DType dtype_of<std::uint8_t>() noexcept {
  return DType::u8;
}
template <>
constexpr DType dtype_of<bool>() noexcept {
  return DType::boolean;
}

}  // namespace rankcast
