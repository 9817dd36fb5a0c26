// Arithmetic on bits by way of double, slow and plain: what the kernels must agree with.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "rankcast/dtype.h"

namespace rankcast::kernels {

/// The layout of a 16-bit float.
struct HalfFormat {
  int mantissa_bits;
  int exponent_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1u) << mantissa_bits; }
};

inline constexpr HalfFormat kF16{.mantissa_bits = 10, .exponent_bits = 5};
inline constexpr HalfFormat kBf16{.mantissa_bits = 7, .exponent_bits = 8};

inline double half_value(HalfFormat format, std::uint16_t bits) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = (bits & 0x7FFF) >> format.mantissa_bits;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  }
  const int scale = std::max(exponent, 1) - format.bias() - format.mantissa_bits;
  const int hidden = exponent != 0 ? 1 << format.mantissa_bits : 0;
  return sign * std::ldexp(mantissa + hidden, scale);
}

/// The bits of the nearest value, ties to even. Any NaN for a NaN.
inline std::uint16_t half_bits(HalfFormat format, double value) {
  const std::uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  if (std::isnan(value)) return static_cast<std::uint16_t>(format.infinity() | 1u);
  const double magnitude = std::fabs(value);
  std::uint32_t bits = format.infinity();
  if (std::isfinite(magnitude)) {
    const int lowest = 1 - format.bias();
    const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
    // A mantissa that is rounded up to the next power of two carries into the exponent's bits.
    const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
    const double coded = steps + std::ldexp(exponent - lowest, format.mantissa_bits);
    bits = coded < format.infinity() ? static_cast<std::uint32_t>(coded) : format.infinity();
  }
  return static_cast<std::uint16_t>(bits | sign);
}

inline bool is_nan(DType dtype, std::uint64_t bits) {
  switch (dtype) {
    case DType::f64:
      return std::isnan(std::bit_cast<double>(bits));
    case DType::f32:
      return std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DType::f16:
      return std::isnan(half_value(kF16, static_cast<std::uint16_t>(bits)));
    case DType::bf16:
      return std::isnan(half_value(kBf16, static_cast<std::uint16_t>(bits)));
    default:
      return false;
  }
}

/// The same bits, or two NaNs: which NaN comes out of an addition is the processor's to say.
inline bool same_value(DType dtype, std::uint64_t a, std::uint64_t b) {
  return a == b || (is_nan(dtype, a) && is_nan(dtype, b));
}

}  // namespace rankcast::kernels
