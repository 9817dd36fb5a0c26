// Whether two orchestrations made the same run.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "graph/run_draft.h"

namespace rankcast::program {

template <class T>
bool same_bytes(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Equal but for the numbers of layouts, whose contents must be equal.
inline void expect_same_draft(const graph::RunDraft& a, const graph::RunDraft& b) {
  EXPECT_EQ(a.task_count(), b.task_count());
  ASSERT_EQ(a.used, b.used);
  a.used.for_each([&](int rank) {
    const frame::FrameDraft& mine = a.lane(rank);
    const frame::FrameDraft& other = b.lane(rank);
    EXPECT_TRUE(same_bytes(mine.tasks.span(), other.tasks.span())) << "tasks of rank " << rank;
    EXPECT_TRUE(same_bytes(mine.scalars.span(), other.scalars.span()));
    EXPECT_TRUE(same_bytes(mine.edges.span(), other.edges.span())) << "edges of rank " << rank;
    EXPECT_TRUE(same_bytes(mine.waits.span(), other.waits.span())) << "waits of rank " << rank;
    EXPECT_TRUE(same_bytes(mine.notifies.span(), other.notifies.span()));
    ASSERT_EQ(mine.arguments.size(), other.arguments.size());
    for (std::size_t i = 0; i < mine.arguments.size(); ++i) {
      frame::ArgumentRecord one = mine.arguments[i];
      frame::ArgumentRecord two = other.arguments[i];
      EXPECT_EQ(a.layouts[one.layout], b.layouts[two.layout]);
      one.layout = two.layout = 0;
      EXPECT_EQ(std::memcmp(&one, &two, sizeof(one)), 0) << "argument " << i << " of rank " << rank;
    }
  });
}

}  // namespace rankcast::program
