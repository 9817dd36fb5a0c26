#include "tensor/layout.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <set>

#include "support/expect_error.h"

namespace rankcast::tensor {
namespace {

using detail::Layout;
using test::expect_error;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

TEST(LayoutTest, ContiguousHasRowMajorStrides) {
  const Layout layout = contiguous_layout(DType::f32, Shape{2, 3, 4});
  EXPECT_EQ(layout.dims, 3);
  EXPECT_EQ(layout.strides, (std::array<std::int64_t, kMaxDims>{12, 4, 1}));
  EXPECT_EQ(layout.shape, (std::array<std::int64_t, kMaxDims>{2, 3, 4}));
  EXPECT_EQ(layout.extent_bytes, 96U);
  EXPECT_EQ(layout_size_bytes(layout), 96U);
  EXPECT_EQ(layout_shape(layout), (Shape{2, 3, 4}));
  EXPECT_TRUE(is_contiguous(layout));
  EXPECT_TRUE(is_valid(layout));
}

TEST(LayoutTest, OverflowAndUnknownDTypeAreRefused) {
  expect_error(ErrorCode::invalid_argument, {"i16"},
               [] { contiguous_layout(DType::i16, Shape{kHuge}); });
  expect_error(ErrorCode::invalid_argument, {"no dtype"},
               [] { contiguous_layout(static_cast<DType>(77), Shape{1}); });
}

TEST(LayoutTest, EmptyHasNoShapeAndNoBytes) {
  expect_error(ErrorCode::invalid_argument, {"empty"}, [] { layout_shape(Layout{}); });
  EXPECT_EQ(layout_size_bytes(Layout{}), 0U);
  EXPECT_EQ(describe(Layout{}), "empty");
  EXPECT_FALSE(is_valid(Layout{}));
}

// Rows of 16 elements of which the first 12 are taken.
Layout with_gaps() {
  Layout layout = contiguous_layout(DType::f32, Shape{8, 12});
  layout.strides[0] = 16;
  layout.extent_bytes = 496;  // 7 rows of 16 and one of 12
  return layout;
}

TEST(LayoutTest, GapsAreSeen) {
  EXPECT_TRUE(is_valid(with_gaps()));
  EXPECT_FALSE(is_contiguous(with_gaps()));
  EXPECT_EQ(layout_size_bytes(with_gaps()), 8U * 12 * 4);
}

TEST(LayoutTest, StridesOfSingleElementsMakeNoGap) {
  Layout layout = contiguous_layout(DType::f32, Shape{1, 4});
  layout.strides[0] = 99;
  EXPECT_TRUE(is_valid(layout));
  EXPECT_TRUE(is_contiguous(layout));
}

TEST(LayoutTest, Description) {
  EXPECT_EQ(describe(contiguous_layout(DType::f32, Shape{8, 16})), "f32[8, 16]");
  EXPECT_EQ(describe(contiguous_layout(DType::boolean, Shape{1})), "bool[1]");
  EXPECT_EQ(describe(with_gaps()), "f32[8, 12] strides [16, 1]");
}

// Every field that a damaged record could have changed.
TEST(LayoutTest, DamageIsNoticed) {
  const Layout good = contiguous_layout(DType::f32, Shape{4, 4});
  ASSERT_TRUE(is_valid(good));
  const auto damaged = [&good](auto&& damage) {
    Layout layout = good;
    damage(layout);
    return layout;
  };
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.dims = 0; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.dims = 1; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.dims = 3; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.dims = 255; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.dtype = static_cast<DType>(0); })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.dtype = DType::f64; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.shape[0] = 0; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.shape[0] = -4; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.shape[1] = kHuge; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.shape[7] = 1; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.strides[0] = 0; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.strides[1] = -1; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.strides[1] = kHuge; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.strides[2] = 1; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.extent_bytes += 4; })));
  EXPECT_FALSE(is_valid(damaged([](Layout& l) { l.reserved[5] = 1; })));
}

TEST(LayoutTest, HashTellsApartWhatDiffers) {
  std::set<std::uint64_t> hashes;
  int count = 0;
  for (const DType dtype : {DType::f32, DType::i32}) {
    for (std::int64_t rows = 1; rows <= 40; ++rows) {
      for (std::int64_t columns = 1; columns <= 40; ++columns) {
        hashes.insert(layout_hash(contiguous_layout(dtype, Shape{rows, columns})));
        ++count;
      }
    }
  }
  hashes.insert(layout_hash(with_gaps()));
  EXPECT_EQ(hashes.size(), static_cast<std::size_t>(count) + 1);
  EXPECT_EQ(layout_hash(with_gaps()), layout_hash(with_gaps()));
}

TEST(LayoutTest, DLPackTypesThereAndBack) {
  for (int value = 1; value <= kDTypeCount; ++value) {
    const auto dtype = static_cast<DType>(value);
    EXPECT_EQ(from_dl(to_dl(dtype)), dtype) << dtype_name(dtype);
  }
  const DLDataType bf16 = to_dl(DType::bf16);
  EXPECT_EQ(bf16.code, kDLBfloat);
  EXPECT_EQ(bf16.bits, 16);
  EXPECT_EQ(bf16.lanes, 1);
  EXPECT_EQ(to_dl(DType::boolean).code, kDLBool);
  EXPECT_EQ(to_dl(DType::u8).code, kDLUInt);
  EXPECT_EQ(from_dl({.code = kDLFloat, .bits = 32, .lanes = 4}), std::nullopt);
  EXPECT_EQ(from_dl({.code = kDLUInt, .bits = 16, .lanes = 1}), std::nullopt);
  EXPECT_EQ(from_dl({.code = kDLComplex, .bits = 64, .lanes = 1}), std::nullopt);
}

RC_GTEST_PROP(LayoutProperty, ContiguousLayoutsAreValidAndKeepTheirShape, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 9);
  const auto extents =
      *rc::gen::container<std::vector<std::int64_t>>(count, rc::gen::inRange<std::int64_t>(1, 100));
  const auto dtype = static_cast<DType>(*rc::gen::inRange(1, kDTypeCount + 1));
  const Shape shape{std::span<const std::int64_t>(extents)};
  const Layout layout = contiguous_layout(dtype, shape);
  RC_ASSERT(is_valid(layout));
  RC_ASSERT(is_contiguous(layout));
  RC_ASSERT(layout_shape(layout) == shape);
  RC_ASSERT(layout_size_bytes(layout) == shape.size_bytes(dtype));
  RC_ASSERT(layout.extent_bytes == layout_size_bytes(layout));
}

}  // namespace
}  // namespace rankcast::tensor
