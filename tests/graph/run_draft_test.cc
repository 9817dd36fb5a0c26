#include "graph/run_draft.h"

#include <gtest/gtest.h>

#include <utility>

namespace rankcast::graph {
namespace {

std::vector<int> ranks_of(const base::RankSet& set) {
  std::vector<int> ranks;
  set.for_each([&](int rank) { ranks.push_back(rank); });
  return ranks;
}

TEST(RunDraft, KnowsTheLanesThatWereUsed) {
  RunDraft draft(100);
  EXPECT_TRUE(draft.used.empty());
  draft.lane(70).tasks.push({});
  draft.lane(3).tasks.push({});
  draft.lane(70).tasks.push({});
  EXPECT_EQ(ranks_of(draft.used), (std::vector<int>{3, 70}));
  EXPECT_EQ(std::as_const(draft).lane(70).tasks.size(), 2u);
  EXPECT_EQ(std::as_const(draft).lane(4).tasks.size(), 0u) << "to look is not to use";
  EXPECT_EQ(ranks_of(draft.used), (std::vector<int>{3, 70}));
}

TEST(RunDraft, IsEmptyAfterClearAndKeepsItsMemory) {
  RunDraft draft(4);
  const auto fill = [&] {
    for (const int rank : {0, 3}) {
      frame::FrameDraft& lane = draft.lane(rank);
      lane.tasks.push({});
      lane.arguments.push({});
      lane.scalars.push({});
      lane.edges.push(0);
      lane.waits.push({});
      lane.notifies.push(0);
      lane.groups.push({});
      lane.members.push(0);
    }
    draft.layouts.push({});
    draft.places.push({0, 0, frame::kNone});
    draft.places.push({3, 0, frame::kNone});
  };
  fill();
  draft.clear();
  EXPECT_TRUE(draft.used.empty());
  EXPECT_EQ(draft.task_count(), 0u);
  EXPECT_TRUE(draft.layouts.empty());
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(frame::frame_bytes(std::as_const(draft).lane(rank), 0).value(),
              sizeof(frame::FrameHeader));
  }
  const std::uint64_t growths = base::scratch_growths;
  fill();
  EXPECT_EQ(base::scratch_growths, growths);
}

}  // namespace
}  // namespace rankcast::graph
