#include "program/layout_table.h"

#include <gtest/gtest.h>

#include "tensor/layout.h"

namespace rankcast::program {
namespace {

frame::LayoutRecord layout_of(std::int64_t extent, DType dtype = DType::f32) {
  return tensor::contiguous_layout(dtype, Shape{extent});
}

TEST(LayoutTable, EqualLayoutsHaveEqualNumbers) {
  LayoutTable table;
  base::Scratch<frame::LayoutRecord> of_run;
  EXPECT_FALSE(table.begin_run());
  const auto a = table.intern(layout_of(4), of_run);
  const auto b = table.intern(layout_of(5), of_run);
  const auto c = table.intern(layout_of(4, DType::i32), of_run);
  EXPECT_NE(a.id, b.id);
  EXPECT_NE(a.id, c.id);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(table.intern(layout_of(4), of_run).id, a.id);
    EXPECT_EQ(table.intern(layout_of(5), of_run).index, b.index);
    EXPECT_EQ(table.intern(layout_of(4, DType::i32), of_run).id, c.id);
  }
  ASSERT_EQ(of_run.size(), 3u) << "each once in the run";
  EXPECT_EQ(of_run[a.index], layout_of(4));
  EXPECT_EQ(of_run[b.index], layout_of(5));
  EXPECT_EQ(of_run[c.index], layout_of(4, DType::i32));
  EXPECT_EQ(table.at(b.id), layout_of(5));
}

TEST(LayoutTable, StridesAreADifference) {
  LayoutTable table;
  base::Scratch<frame::LayoutRecord> of_run;
  table.begin_run();
  frame::LayoutRecord gaps = layout_of(4);
  gaps.strides[0] = 2;
  gaps.extent_bytes = 28;
  EXPECT_NE(table.intern(layout_of(4), of_run).id, table.intern(gaps, of_run).id);
}

TEST(LayoutTable, IdsOutliveRunsAndIndicesDoNot) {
  LayoutTable table;
  base::Scratch<frame::LayoutRecord> first;
  table.begin_run();
  const auto a = table.intern(layout_of(1), first);
  const auto b = table.intern(layout_of(2), first);
  base::Scratch<frame::LayoutRecord> second;
  EXPECT_FALSE(table.begin_run());
  const auto b_again = table.intern(layout_of(2), second);
  EXPECT_EQ(b_again.id, b.id);
  EXPECT_EQ(b_again.index, 0u);
  const auto a_again = table.intern(layout_of(1), second);
  EXPECT_EQ(a_again.id, a.id);
  EXPECT_EQ(a_again.index, 1u);
  EXPECT_EQ(second.size(), 2u);
}

TEST(LayoutTable, ForgetsAllAtOnceBetweenRuns) {
  LayoutTable table;
  base::Scratch<frame::LayoutRecord> of_run;
  table.begin_run();
  for (std::size_t i = 0; i <= LayoutTable::kMax; ++i) {
    const auto numbers = table.intern(layout_of(static_cast<std::int64_t>(i) + 1), of_run);
    ASSERT_EQ(numbers.index, i) << "never in the middle of a run";
  }
  of_run.clear();
  EXPECT_TRUE(table.begin_run());
  const auto numbers = table.intern(layout_of(7), of_run);
  EXPECT_EQ(numbers.id, 0u);
  EXPECT_EQ(numbers.index, 0u);
  EXPECT_EQ(table.at(numbers.id), layout_of(7));
  EXPECT_FALSE(table.begin_run());
}

}  // namespace
}  // namespace rankcast::program
