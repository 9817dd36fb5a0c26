#include "tensor/pieces.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/seed.h"
#include "tensor/random_views.h"

namespace rankcast::tensor {
namespace {

using detail::Layout;
using detail::TensorAccess;

std::vector<std::size_t> places_of(const Layout& layout, std::uint64_t offset) {
  std::vector<std::size_t> places;
  test::each_element(layout, [&](std::size_t at) { places.push_back(offset + at); });
  return places;
}

TEST(PiecesTest, WhatFitsIsOnePiece) {
  const Layout layout = contiguous_layout(DType::f32, Shape{3, 5});
  Pieces pieces(layout, 60);
  ASSERT_FALSE(pieces.done());
  const Pieces::Piece piece = pieces.next();
  EXPECT_TRUE(pieces.done());
  EXPECT_EQ(piece.layout, contiguous_layout(DType::f32, Shape{15}));
  EXPECT_EQ(piece.offset_bytes, 0U);
  EXPECT_EQ(piece.packed_bytes, 0U);
}

TEST(PiecesTest, WithoutGapsEveryPieceButTheLastIsFull) {
  Pieces pieces(contiguous_layout(DType::f32, Shape{7, 11}), 64);
  for (std::uint64_t from = 0; from < 7 * 11 * 4; from += 64) {
    ASSERT_FALSE(pieces.done());
    const Pieces::Piece piece = pieces.next();
    EXPECT_EQ(piece.offset_bytes, from);
    EXPECT_EQ(piece.packed_bytes, from);
    EXPECT_EQ(layout_size_bytes(piece.layout), std::min<std::uint64_t>(64, 7 * 11 * 4 - from));
  }
  EXPECT_TRUE(pieces.done());
}

TEST(PiecesTest, ColumnsAreCutByRows) {
  Layout columns = contiguous_layout(DType::f32, Shape{10, 3});
  columns.strides[0] = 100;
  columns.extent_bytes = *extent_bytes_of(columns);
  Pieces pieces(columns, 50);  // four rows of 12 bytes
  for (const std::int64_t rows : {4, 4, 2}) {
    const Pieces::Piece piece = pieces.next();
    EXPECT_EQ(piece.layout.shape[0], rows);
    EXPECT_EQ(piece.layout.shape[1], 3);
  }
  EXPECT_TRUE(pieces.done());
}

TEST(PiecesTest, PiecesOneAfterAnotherAreTheTensor) {
  test::RandomViews random(test::test_seed());
  for (int round = 0; round < 5'000; ++round) {
    const DeviceTensor whole = random.base(5, 6, 400);
    const DeviceTensor view =
        random.number(0, 1) == 0 ? random.sliced(whole) : random.strided(whole);
    const Layout& layout = TensorAccess::layout(view);
    const auto most = static_cast<std::uint64_t>(random.number(8, 200));
    std::vector<std::size_t> found;
    std::uint64_t packed = 0;
    for (Pieces pieces(layout, most); !pieces.done();) {
      const Pieces::Piece piece = pieces.next();
      ASSERT_TRUE(is_valid(piece.layout));
      ASSERT_LE(layout_size_bytes(piece.layout), most);
      ASSERT_EQ(piece.packed_bytes, packed);
      packed += layout_size_bytes(piece.layout);
      for (const std::size_t place : places_of(piece.layout, piece.offset_bytes))
        found.push_back(place);
    }
    ASSERT_EQ(found, places_of(layout, 0)) << "round " << round << ": " << describe(layout);
  }
}

}  // namespace
}  // namespace rankcast::tensor
