// tests: src/kernels/sum.cc
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/generators.h"
#include "kernels/host_call.h"
#include "kernels/reference.h"

namespace rankcast::kernels {
namespace {

constexpr DType kSummable[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64,
                               DType::i32, DType::i16, DType::i8,  DType::u8};

float half_sum(HalfFormat format, const std::vector<HostTensor>& inputs, std::size_t i) {
  float sum = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const auto next =
        static_cast<float>(half_value(format, static_cast<std::uint16_t>(inputs[k].bits(i))));
    sum = k == 0 ? next : sum + next;
  }
  return sum;
}

template <class T>
T plain_sum(const std::vector<HostTensor>& inputs, std::size_t i) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  T sum = std::bit_cast<T>(static_cast<Bits>(inputs[0].bits(i)));
  for (std::size_t k = 1; k < inputs.size(); ++k) {
    sum += std::bit_cast<T>(static_cast<Bits>(inputs[k].bits(i)));
  }
  return sum;
}

/// The bits that the loop of the kernel's description gives for element i.
std::uint64_t expected_bits(const std::vector<HostTensor>& inputs, std::size_t i) {
  switch (const DType dtype = inputs[0].dtype()) {
    case DType::f64:
      return std::bit_cast<std::uint64_t>(plain_sum<double>(inputs, i));
    case DType::f32:
      return std::bit_cast<std::uint32_t>(plain_sum<float>(inputs, i));
    case DType::f16:
      return half_bits(kF16, half_sum(kF16, inputs, i));
    case DType::bf16:
      return half_bits(kBf16, half_sum(kBf16, inputs, i));
    default: {
      std::uint64_t sum = 0;
      for (const HostTensor& input : inputs) sum += input.bits(i);
      const std::size_t bits = 8 * size_bytes(dtype);
      return bits == 64 ? sum : sum & ((std::uint64_t{1} << bits) - 1);
    }
  }
}

/// The number of the first element that is wrong, else the element count.
std::size_t first_wrong(const std::vector<HostTensor>& inputs, const HostTensor& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!same_value(out.dtype(), out.bits(i), expected_bits(inputs, i))) return i;
  }
  return out.size();
}

class DenseSum : public ::testing::TestWithParam<DType> {};

// The counts around every change of path: vectors, pairs of them, blocks.
TEST_P(DenseSum, IsThePlainLoopAtEverySize) {
  const DType dtype = GetParam();
  for (const std::int64_t count :
       {1,  2,  7,  8,  9,   15,  16,  17,  31,  32,   33,   47,   48,   49,
        63, 64, 65, 96, 127, 128, 191, 192, 193, 1023, 1024, 1025, 2048, 2500}) {
    for (const int input_count : {1, 2, 3, 4, 5, 6, 8, 9, 141}) {
      std::vector<HostTensor> inputs;
      for (int k = 0; k < input_count; ++k) {
        inputs.push_back(HostTensor::dense(dtype, {count}, static_cast<std::size_t>(k % 3)));
        inputs.back().randomize(static_cast<std::uint64_t>(count * 1000 + k));
      }
      HostTensor out = HostTensor::dense(dtype, {count}, 1);
      HostCall call("rankcast.sum");
      for (HostTensor& input : inputs) call.in(input);
      call.out(out).must_succeed();
      ASSERT_EQ(first_wrong(inputs, out), out.size()) << count << " elements, " << input_count;
      ASSERT_TRUE(out.gaps_are_untouched()) << count << " elements, " << input_count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, DenseSum, ::testing::ValuesIn(kSummable),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

RC_GTEST_PROP(SumProperty, AnyLayoutGivesThePlainLoop, ()) {
  const DType dtype =
      *rc::gen::elementOf(std::vector<DType>(std::begin(kSummable), std::end(kSummable)));
  const std::vector<std::int64_t> shape = any_shape();
  const auto input_count = *rc::gen::inRange<std::size_t>(1, 12);
  std::vector<HostTensor> inputs;
  inputs.reserve(input_count);
  for (std::size_t k = 0; k < input_count; ++k) inputs.push_back(any_tensor(dtype, shape));
  HostTensor out = any_tensor(dtype, shape);
  HostCall call("rankcast.sum");
  for (HostTensor& input : inputs) call.in(input);
  call.out(out);
  RC_ASSERT(call.check().ok());
  RC_ASSERT(call.run().ok());
  RC_ASSERT(first_wrong(inputs, out) == out.size());
  RC_ASSERT(out.gaps_are_untouched());
}

TEST(Sum, ReadsAnInputAsOftenAsItIsGiven) {
  HostTensor in = HostTensor::dense(DType::i32, {3});
  HostTensor out = HostTensor::dense(DType::i32, {3});
  for (std::size_t i = 0; i < 3; ++i) in.set_bits(i, i + 1);
  HostCall("rankcast.sum").in(in).in(in).in(in).out(out).must_succeed();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out.bits(i), 3 * (i + 1));
}

TEST(Sum, RunRefusesADTypeThatItCannotAddEvenUnchecked) {
  HostTensor in = HostTensor::dense(DType::boolean, {3});
  HostTensor out = HostTensor::dense(DType::boolean, {3});
  const Outcome ran = HostCall("rankcast.sum").in(in).out(out).run();
  EXPECT_FALSE(ran.ok());
  EXPECT_EQ(ran.argument, 0);
}

}  // namespace
}  // namespace rankcast::kernels
