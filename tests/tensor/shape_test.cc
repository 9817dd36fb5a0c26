#include "rankcast/shape.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <vector>

#include "support/expect_error.h"

namespace rankcast {
namespace {

using test::expect_error;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

Shape made(const std::vector<std::int64_t>& extents) {
  return Shape(std::span<const std::int64_t>(extents));
}

TEST(ShapeTest, KeepsItsExtents) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.dims(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[2], 4);
  EXPECT_EQ(shape.element_count(), 24);
  EXPECT_EQ(shape.size_bytes(DType::f64), 192U);
  EXPECT_EQ(shape.size_bytes(DType::boolean), 24U);
  EXPECT_EQ(shape.to_string(), "[2, 3, 4]");
}

TEST(ShapeTest, EmptyIsRefused) {
  expect_error(ErrorCode::invalid_argument, {"at least one extent"}, [] { made({}); });
}

TEST(ShapeTest, NineExtentsAreRefused) {
  EXPECT_EQ(made({1, 2, 1, 2, 1, 2, 1, 2}).dims(), 8);
  expect_error(ErrorCode::invalid_argument, {"9 extents", "at most 8"},
               [] { made({1, 1, 1, 1, 1, 1, 1, 1, 1}); });
}

TEST(ShapeTest, AMillionExtentsGiveAShortMessage) {
  const std::vector<std::int64_t> extents(1'000'000, 1);
  const auto error = test::error_of([&] { made(extents); });
  ASSERT_TRUE(error);
  EXPECT_LT(std::string(error->what()).size(), 300U);
}

TEST(ShapeTest, ExtentsMustBePositiveAndTheOneAtFaultIsNamed) {
  expect_error(ErrorCode::invalid_argument, {"extent 1 of shape [2, 0, 3] is 0"},
               [] { made({2, 0, 3}); });
  expect_error(ErrorCode::invalid_argument, {"extent 2 of shape [2, 3, -4] is -4"},
               [] { made({2, 3, -4}); });
}

TEST(ShapeTest, ProductsThatOverflowAreRefused) {
  EXPECT_EQ(Shape{kHuge}.element_count(), kHuge);
  expect_error(ErrorCode::invalid_argument, {"overflows at extent 1"}, [] { made({kHuge, 2}); });
  expect_error(ErrorCode::invalid_argument, {"overflows at extent 2"},
               [] { made({1LL << 32, 1LL << 30, 2}); });
}

TEST(ShapeTest, BytesThatOverflowAreRefused) {
  const Shape shape{kHuge};
  EXPECT_EQ(shape.size_bytes(DType::u8), static_cast<std::uint64_t>(kHuge));
  expect_error(ErrorCode::invalid_argument, {"f16[9223372036854775807]", "bytes"},
               [&] { shape.size_bytes(DType::f16); });
  expect_error(ErrorCode::invalid_argument, {"99 is no dtype"},
               [] { Shape{1}.size_bytes(static_cast<DType>(99)); });
}

TEST(ShapeTest, TailAndPrepended) {
  EXPECT_EQ((Shape{2, 3, 4}.tail()), (Shape{3, 4}));
  EXPECT_EQ((Shape{3, 4}.prepended(2)), (Shape{2, 3, 4}));
  expect_error(ErrorCode::invalid_argument, {"[7]"}, [] { Shape{7}.tail(); });
  expect_error(ErrorCode::invalid_argument, {"9 extents"},
               [] { (Shape{1, 1, 1, 1, 1, 1, 1, 1}.prepended(1)); });
  expect_error(ErrorCode::invalid_argument, {"extent 0", "is 0"}, [] { Shape{1}.prepended(0); });
}

TEST(ShapeTest, TrailingOnesMakeAnotherShape) { EXPECT_NE((Shape{2, 1}), Shape{2}); }

RC_GTEST_PROP(ShapeProperty, CountIsTheProductOrTheShapeIsRefused, ()) {
  const auto extents = *rc::gen::resize(
      100, rc::gen::container<std::vector<std::int64_t>>(rc::gen::oneOf(
               rc::gen::inRange<std::int64_t>(-2, 9), rc::gen::inRange<std::int64_t>(1, kHuge))));
  bool good = !extents.empty() && extents.size() <= 8;
  __int128 product = 1;
  for (const std::int64_t extent : extents) {
    if (extent <= 0) good = false;
    if (good) product *= extent;
    if (product > kHuge) good = false;
  }
  if (good) {
    const Shape shape = made(extents);
    RC_ASSERT(static_cast<__int128>(shape.element_count()) == product);
    RC_ASSERT(
        std::equal(extents.begin(), extents.end(), shape.extents().begin(), shape.extents().end()));
    if (shape.dims() < 8) RC_ASSERT(shape.prepended(1).tail() == shape);
  } else {
    RC_ASSERT_THROWS_AS(made(extents), Error);
  }
}

}  // namespace
}  // namespace rankcast
