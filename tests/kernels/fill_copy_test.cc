// tests: src/kernels/fill.cc
// tests: src/kernels/copy.cc
// tests: src/kernels/strided.cc
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/generators.h"
#include "kernels/host_call.h"
#include "kernels/reference.h"

namespace rankcast::kernels {
namespace {

RC_GTEST_PROP(CopyProperty, EveryElementArrivesWhateverTheLayouts, ()) {
  const DType dtype = any_dtype();
  const std::vector<std::int64_t> shape = any_shape();
  HostTensor in = any_tensor(dtype, shape);
  HostTensor out = any_tensor(dtype, shape);
  HostCall call("rankcast.copy");
  call.in(in).out(out);
  RC_ASSERT(call.check().ok());
  RC_ASSERT(call.run().ok());
  RC_ASSERT(out.row_major() == in.row_major());
  RC_ASSERT(out.gaps_are_untouched());
}

TEST(Copy, TransposesOfSeveralDimensions) {
  HostTensor in = HostTensor::dense(DType::i32, {4, 3, 5});
  HostTensor out(DType::i32, {4, 3, 5}, {1, 4, 12});
  in.randomize(7);
  HostCall("rankcast.copy").in(in).out(out).must_succeed();
  EXPECT_EQ(out.row_major(), in.row_major());
}

/// What an element of `dtype` becomes; nothing if that is refused.
std::optional<std::uint64_t> filled(DType dtype, std::int64_t integer) {
  HostTensor out = HostTensor::dense(dtype, {1});
  HostCall call("rankcast.fill");
  call.out(out).scalar(integer);
  const bool checked = call.check().ok();
  EXPECT_EQ(call.run().ok(), checked);
  return checked ? std::optional(out.bits(0)) : std::nullopt;
}
std::optional<std::uint64_t> filled(DType dtype, double real) {
  HostTensor out = HostTensor::dense(dtype, {1});
  HostCall call("rankcast.fill");
  call.out(out).scalar(real);
  const bool checked = call.check().ok();
  EXPECT_EQ(call.run().ok(), checked);
  return checked ? std::optional(out.bits(0)) : std::nullopt;
}

RC_GTEST_PROP(FillProperty, EveryElementGetsTheValueAndNothingElse, ()) {
  const DType dtype = any_dtype();
  HostTensor out = any_tensor(dtype, any_shape());
  const auto value = *rc::gen::inRange<std::int64_t>(0, dtype == DType::boolean ? 2 : 128);
  HostCall call("rankcast.fill");
  if (*rc::gen::arbitrary<bool>()) {
    call.out(out).scalar(value);
  } else {
    call.out(out).scalar(static_cast<double>(value));
  }
  RC_ASSERT(call.check().ok());
  RC_ASSERT(call.run().ok());
  const std::optional<std::uint64_t> bits = filled(dtype, value);
  RC_ASSERT(bits.has_value());
  for (std::size_t i = 0; i < out.size(); ++i) RC_ASSERT(out.bits(i) == *bits);
  RC_ASSERT(out.gaps_are_untouched());
}

TEST(Fill, FloatsTakeTheNearestValue) {
  const auto f32 = [](float value) { return std::uint64_t{std::bit_cast<std::uint32_t>(value)}; };
  EXPECT_EQ(filled(DType::f64, 0.1), std::bit_cast<std::uint64_t>(0.1));
  EXPECT_EQ(filled(DType::f64, std::int64_t{3}), std::bit_cast<std::uint64_t>(3.0));
  EXPECT_EQ(filled(DType::f32, 0.1), f32(0.1F));
  EXPECT_EQ(filled(DType::f32, std::int64_t{16'777'217}), f32(16'777'216.0F));
  EXPECT_EQ(filled(DType::f32, 1e300), f32(INFINITY));
  EXPECT_EQ(filled(DType::f16, 0.1), half_bits(kF16, 0.1));
  EXPECT_EQ(filled(DType::f16, -1e6), half_bits(kF16, -INFINITY));
  EXPECT_EQ(filled(DType::bf16, 0.1), half_bits(kBf16, 0.1));
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const auto nan = filled(dtype, std::numeric_limits<double>::quiet_NaN());
    ASSERT_TRUE(nan);
    EXPECT_TRUE(is_nan(dtype, *nan)) << dtype_name(dtype);
  }
}

TEST(Fill, IntegersTakeOnlyWhatTheyCanHold) {
  struct Case {
    DType dtype;
    std::int64_t low;
    std::int64_t high;
  };
  for (const auto& [dtype, low, high] :
       {Case{DType::i32, -2147483648, 2147483647}, Case{DType::i16, -32768, 32767},
        Case{DType::i8, -128, 127}, Case{DType::u8, 0, 255}, Case{DType::boolean, 0, 1}}) {
    const std::uint64_t mask = (std::uint64_t{1} << (8 * size_bytes(dtype))) - 1;
    EXPECT_EQ(filled(dtype, low), static_cast<std::uint64_t>(low) & mask) << dtype_name(dtype);
    EXPECT_EQ(filled(dtype, high), static_cast<std::uint64_t>(high)) << dtype_name(dtype);
    EXPECT_EQ(filled(dtype, static_cast<double>(high)), static_cast<std::uint64_t>(high));
    EXPECT_FALSE(filled(dtype, low - 1)) << dtype_name(dtype);
    EXPECT_FALSE(filled(dtype, high + 1)) << dtype_name(dtype);
    EXPECT_FALSE(filled(dtype, 0.5)) << dtype_name(dtype);
    EXPECT_FALSE(filled(dtype, std::numeric_limits<double>::quiet_NaN())) << dtype_name(dtype);
  }
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(filled(DType::i64, kLowest), static_cast<std::uint64_t>(kLowest));
  EXPECT_EQ(filled(DType::i64, -9223372036854775808.0), static_cast<std::uint64_t>(kLowest));
  EXPECT_FALSE(filled(DType::i64, 9223372036854775808.0));
  EXPECT_FALSE(filled(DType::i64, -INFINITY));
}

}  // namespace
}  // namespace rankcast::kernels
