#include "rankcast/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rankcast {
namespace {

TEST(DTypeTest, NumbersAreThoseOfTheFrameFormat) {
  EXPECT_EQ(static_cast<int>(DType::f64), 1);
  EXPECT_EQ(static_cast<int>(DType::bf16), 4);
  EXPECT_EQ(static_cast<int>(DType::i64), 5);
  EXPECT_EQ(static_cast<int>(DType::boolean), kDTypeCount);
}

TEST(DTypeTest, EveryOneHasASizeAndANameOfItsOwn) {
  std::set<std::string> names;
  for (int value = 1; value <= kDTypeCount; ++value) {
    const auto dtype = static_cast<DType>(value);
    EXPECT_TRUE(is_valid(dtype));
    const std::string name(dtype_name(dtype));
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(dtype_from_name(name), dtype);
    if (dtype != DType::boolean) {
      const std::string bits = name.substr(name.find_first_of("0123456789"));
      EXPECT_EQ(std::stoul(bits), 8 * size_bytes(dtype)) << name;
    }
  }
  EXPECT_EQ(names.count("bool"), 1U);
  EXPECT_EQ(size_bytes(DType::boolean), 1U);
}

TEST(DTypeTest, OtherValuesAreNone) {
  for (const int value : {0, kDTypeCount + 1, 255}) {
    const auto dtype = static_cast<DType>(value);
    EXPECT_FALSE(is_valid(dtype)) << value;
    EXPECT_EQ(size_bytes(dtype), 0U) << value;
    EXPECT_EQ(dtype_name(dtype), "unknown") << value;
  }
}

TEST(DTypeTest, NamesNobodyHasGiveNothing) {
  for (const char* name : {"", "f8", "F32", "f32 ", "boolean", "unknown", "u16"}) {
    EXPECT_EQ(dtype_from_name(name), std::nullopt) << name;
  }
}

TEST(DTypeTest, ElementTypesOfCppAreKnown) {
  EXPECT_EQ(dtype_of<double>(), DType::f64);
  EXPECT_EQ(dtype_of<float>(), DType::f32);
  EXPECT_EQ(dtype_of<std::int64_t>(), DType::i64);
  EXPECT_EQ(dtype_of<std::int32_t>(), DType::i32);
  EXPECT_EQ(dtype_of<std::int16_t>(), DType::i16);
  EXPECT_EQ(dtype_of<std::int8_t>(), DType::i8);
  EXPECT_EQ(dtype_of<std::uint8_t>(), DType::u8);
  EXPECT_EQ(dtype_of<bool>(), DType::boolean);
}

}  // namespace
}  // namespace rankcast
