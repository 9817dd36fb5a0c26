#include "rankcast/host_view.h"

#include <gtest/gtest.h>

#include <array>

#include "support/expect_error.h"

namespace rankcast {
namespace {

using test::expect_error;

TEST(HostViewTest, DescribesWhatItIsGiven) {
  std::array<float, 6> data{};
  const HostView view(data.data(), Shape{2, 3});
  EXPECT_EQ(view.data(), data.data());
  EXPECT_EQ(view.dtype(), DType::f32);
  EXPECT_EQ(view.shape(), (Shape{2, 3}));
  EXPECT_EQ(view.size_bytes(), 24U);
  const MutableHostView writable(data.data(), Shape{6});
  EXPECT_EQ(writable.data(), data.data());
  EXPECT_EQ(writable.dtype(), DType::f32);
  EXPECT_EQ(writable.shape(), Shape{6});
  EXPECT_EQ(writable.size_bytes(), 24U);
}

TEST(HostViewTest, NullIsRefused) {
  expect_error(ErrorCode::invalid_argument, {"f32[2]", "null"},
               [] { HostView(nullptr, DType::f32, Shape{2}); });
  expect_error(ErrorCode::invalid_argument, {"f32[2]", "null"},
               [] { MutableHostView(nullptr, DType::f32, Shape{2}); });
}

TEST(HostViewTest, MisalignmentIsNamedInBytes) {
  alignas(16) std::array<std::byte, 64> bytes{};
  for (std::size_t beyond = 0; beyond < 8; ++beyond) {
    void* data = bytes.data() + beyond;
    for (int value = 1; value <= kDTypeCount; ++value) {
      const auto dtype = static_cast<DType>(value);
      const std::size_t alignment = size_bytes(dtype);
      if (beyond % alignment == 0) {
        EXPECT_EQ(HostView(data, dtype, Shape{1}).data(), data);
        EXPECT_EQ(MutableHostView(data, dtype, Shape{1}).data(), data);
        continue;
      }
      const std::initializer_list<std::string> words{
          std::string(dtype_name(dtype)), "multiple of " + std::to_string(alignment) + " bytes",
          "it is " + std::to_string(beyond % alignment) + " beyond"};
      expect_error(ErrorCode::invalid_argument, words, [&] { HostView(data, dtype, Shape{1}); });
      expect_error(ErrorCode::invalid_argument, words,
                   [&] { MutableHostView(data, dtype, Shape{1}); });
    }
  }
}

TEST(HostViewTest, BytesThatOverflowAreRefused) {
  double value = 0;
  expect_error(ErrorCode::invalid_argument, {"bytes"},
               [&] { HostView(&value, Shape{std::int64_t{1} << 60}); });
}

TEST(HostViewTest, UnknownDTypeIsRefused) {
  double value = 0;
  expect_error(ErrorCode::invalid_argument, {"no dtype"},
               [&] { HostView(&value, static_cast<DType>(0), Shape{1}); });
}

}  // namespace
}  // namespace rankcast
