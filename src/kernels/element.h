// Elements: dtypes as kernels meet them, and what half precision is in bits.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "rankcast/dlpack.h"
#include "rankcast/dtype.h"

namespace rankcast::kernels {

/// Nothing for what is no dtype of Rankcast.
constexpr std::optional<DType> dtype_of(DLDataType type) {
  if (type.lanes != 1) return std::nullopt;
  switch (type.code << 8 | type.bits) {
    case kDLFloat << 8 | 64:
      return DType::f64;
    case kDLFloat << 8 | 32:
      return DType::f32;
    case kDLFloat << 8 | 16:
      return DType::f16;
    case kDLBfloat << 8 | 16:
      return DType::bf16;
    case kDLInt << 8 | 64:
      return DType::i64;
    case kDLInt << 8 | 32:
      return DType::i32;
    case kDLInt << 8 | 16:
      return DType::i16;
    case kDLInt << 8 | 8:
      return DType::i8;
    case kDLUInt << 8 | 8:
      return DType::u8;
    case kDLBool << 8 | 8:
      return DType::boolean;
    default:
      return std::nullopt;
  }
}

constexpr bool same_dtype(DLDataType a, DLDataType b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

constexpr std::int64_t size_bytes(DLDataType type) { return type.bits / 8; }

/// The unsigned integer of that many bytes.
template <int Bytes>
using Word = std::conditional_t<
    Bytes == 1, std::uint8_t,
    std::conditional_t<Bytes == 2, std::uint16_t,
                       std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;

/// Calls f(Word()) with the word of `bytes` (1, 2, 4 or 8).
template <class F>
void with_word(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

// The conversions below have no branch, so that loops of them become vector code.

inline float f16_to_f32(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = (half & 0x7FFFu) << 13;
  // Multiplied by 2^112, the exponent's bias changes from 15 to 127, and subnormals become normal.
  const float scaled = std::bit_cast<float>(magnitude) * std::bit_cast<float>(0x77800000u);
  const std::uint32_t special = magnitude >= 0x0F800000u ? 0x7F800000u : 0u;  // infinite or a NaN
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

/// To nearest, ties to even; a NaN stays one.
inline std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  // Added to 0.5, a value below 2^-14 is rounded by the adder to the last bit of a subnormal half.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u;
  std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477FF000u ? 0x7C00u : half;  // 65520 and more
  half = magnitude > 0x7F800000u ? 0x7E00u : half;
  return static_cast<std::uint16_t>(half | sign);
}

inline float bf16_to_f32(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

/// To nearest, ties to even; a NaN stays one.
inline std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

}  // namespace rankcast::kernels
