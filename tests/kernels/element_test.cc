// Half precision: every f16 and bf16, and every f32 that is close to a decision.
#include "kernels/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/host_call.h"
#include "kernels/reference.h"

namespace rankcast::kernels {
namespace {

TEST(Half, EveryValueIsWhatItsBitsSay) {
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double f16 = half_value(kF16, bits);
    const double bf16 = half_value(kBf16, bits);
    if (std::isnan(f16)) {
      ASSERT_TRUE(std::isnan(f16_to_f32(bits))) << i;
    } else {
      ASSERT_EQ(f16_to_f32(bits), f16) << i;
      ASSERT_EQ(std::signbit(f16_to_f32(bits)), std::signbit(f16)) << i;
      ASSERT_EQ(f32_to_f16(f16_to_f32(bits)), bits);
    }
    if (std::isnan(bf16)) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(bits))) << i;
    } else {
      ASSERT_EQ(bf16_to_f32(bits), bf16) << i;
      ASSERT_EQ(f32_to_bf16(bf16_to_f32(bits)), bits);
    }
  }
}

void expect_rounded(float value) {
  if (std::isnan(value)) {
    ASSERT_TRUE(is_nan(DType::f16, f32_to_f16(value)));
    ASSERT_TRUE(is_nan(DType::bf16, f32_to_bf16(value)));
    return;
  }
  ASSERT_EQ(f32_to_f16(value), half_bits(kF16, value)) << value;
  ASSERT_EQ(f32_to_bf16(value), half_bits(kBf16, value)) << value;
}

TEST(Half, RoundsToNearestEvenAroundEveryDecision) {
  for (std::uint32_t i = 0; i < 0x8000; ++i) {
    for (const HalfFormat format : {kF16, kBf16}) {
      const double low = half_value(format, static_cast<std::uint16_t>(i));
      const double high = half_value(format, static_cast<std::uint16_t>(i + 1));
      if (!std::isfinite(low)) continue;
      const double limit = std::ldexp(1.0, format.bias() + 1);
      const auto tie = static_cast<float>((low + (std::isfinite(high) ? high : limit)) / 2);
      for (const float value : {static_cast<float>(low), tie, std::nextafter(tie, 0.0F),
                                std::nextafter(tie, INFINITY)}) {
        expect_rounded(value);
        expect_rounded(-value);
      }
    }
  }
}

TEST(Half, RoundsAnythingElse) {
  std::uint64_t seed = 1;
  for (int i = 0; i < 300'000; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    expect_rounded(std::bit_cast<float>(static_cast<std::uint32_t>(seed >> 32)));
  }
  for (const float value :
       {INFINITY, -INFINITY, NAN, std::numeric_limits<float>::max(),
        std::numeric_limits<float>::denorm_min(), std::bit_cast<float>(0x7F800001u)}) {
    expect_rounded(value);
  }
}

TEST(Element, DTypesAreKnownByTheirDLPackNames) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(dtype_of(dl_dtype(dtype)), dtype);
    EXPECT_EQ(size_bytes(dl_dtype(dtype)), static_cast<std::int64_t>(size_bytes(dtype)));
  }
  EXPECT_FALSE(dtype_of({.code = kDLFloat, .bits = 32, .lanes = 2}));
  EXPECT_FALSE(dtype_of({.code = kDLFloat, .bits = 8, .lanes = 1}));
  EXPECT_FALSE(dtype_of({.code = kDLUInt, .bits = 64, .lanes = 1}));
  EXPECT_FALSE(dtype_of({.code = kDLComplex, .bits = 64, .lanes = 1}));
}

}  // namespace
}  // namespace rankcast::kernels
