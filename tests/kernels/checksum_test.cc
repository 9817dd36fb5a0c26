// tests: src/kernels/checksum.cc
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "kernels/generators.h"
#include "kernels/host_call.h"

namespace rankcast::kernels {
namespace {

std::uint64_t mix(std::uint64_t h, std::uint64_t w) {
  std::uint64_t x = h ^ w;
  x ^= x >> 32;
  return x * 0x9E3779B97F4A7C15u;
}

/// The formula of kernels/builtin.h as it is written there.
std::int64_t plain_checksum(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t h[4] = {1, 2, 3, 4};
  for (std::size_t j = 0; 8 * j < bytes.size(); ++j) {
    std::uint64_t word = 0;
    for (std::size_t k = 0; k < 8 && 8 * j + k < bytes.size(); ++k) {
      word |= std::uint64_t{bytes[8 * j + k]} << (8 * k);
    }
    h[j % 4] = mix(h[j % 4], word);
  }
  std::uint64_t s = bytes.size();
  for (const std::uint64_t lane : h) s = mix(s, lane);
  return static_cast<std::int64_t>(s ^ s >> 32);
}

std::vector<std::int64_t> checksums(std::vector<HostTensor>& inputs, HostTensor& out) {
  HostCall call("rankcast.checksum");
  for (HostTensor& input : inputs) call.in(input);
  call.out(out).must_succeed();
  std::vector<std::int64_t> found;
  found.reserve(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    found.push_back(static_cast<std::int64_t>(out.bits(i)));
  }
  return found;
}

std::int64_t checksum_of(HostTensor tensor) {
  std::vector<HostTensor> inputs{std::move(tensor)};
  HostTensor out = HostTensor::dense(DType::i64, {1});
  return checksums(inputs, out).at(0);
}

RC_GTEST_PROP(ChecksumProperty, IsTheFormulaForEachTensorWhateverItsLayout, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  std::vector<HostTensor> inputs;
  std::vector<std::int64_t> expected;
  for (std::size_t k = 0; k < count; ++k) {
    inputs.push_back(any_tensor(any_dtype(), any_shape()));
    expected.push_back(plain_checksum(inputs.back().row_major()));
  }
  const auto n = static_cast<std::int64_t>(count);
  HostTensor out(DType::i64, {n}, {*rc::gen::inRange<std::int64_t>(1, 4)});
  RC_ASSERT(checksums(inputs, out) == expected);
  RC_ASSERT(out.gaps_are_untouched());
}

TEST(Checksum, IsTheFormulaAtEveryLengthOfTail) {
  for (const std::int64_t bytes : {1, 2, 7, 8, 9, 24, 31, 32, 33, 63, 64, 65, 4095, 4096, 4097}) {
    HostTensor tensor = HostTensor::dense(DType::u8, {bytes}, 3);
    tensor.randomize(static_cast<std::uint64_t>(bytes));
    EXPECT_EQ(checksum_of(tensor), plain_checksum(tensor.row_major())) << bytes;
  }
}

// So that a change of the formula is seen even if the test's copy of it changes along.
TEST(Checksum, OfKnownBytes) {
  HostTensor tensor = HostTensor::dense(DType::u8, {40});
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor.set_bits(i, i);
  EXPECT_EQ(checksum_of(tensor), 2254587064685243725);
}

TEST(Checksum, SeesOneBitALengthAndAnOrder) {
  HostTensor tensor = HostTensor::dense(DType::u8, {100});
  tensor.randomize(1);
  std::set<std::int64_t> seen{checksum_of(tensor)};
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    for (std::uint64_t bit = 1; bit < 256; bit *= 2) {
      HostTensor changed = tensor;
      changed.set_bits(i, tensor.bits(i) ^ bit);
      EXPECT_TRUE(seen.insert(checksum_of(changed)).second) << i << " " << bit;
    }
  }
  for (std::int64_t zeros = 1; zeros < 70; ++zeros) {
    HostTensor longer = HostTensor::dense(DType::u8, {zeros});
    for (std::size_t i = 0; i < longer.size(); ++i) longer.set_bits(i, 0);
    EXPECT_TRUE(seen.insert(checksum_of(longer)).second) << zeros;
  }
  HostTensor swapped = tensor;
  for (std::size_t i = 0; i < 8; ++i) {
    swapped.set_bits(i, tensor.bits(i + 32));
    swapped.set_bits(i + 32, tensor.bits(i));
  }
  EXPECT_TRUE(seen.insert(checksum_of(swapped)).second);
}

}  // namespace
}  // namespace rankcast::kernels
