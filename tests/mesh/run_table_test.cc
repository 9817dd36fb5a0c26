// The runs in flight: slots, room for frames, and what a run came to.
#include "mesh/run_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "base/fault_point.h"
#include "mesh/link_heap.h"
#include "mesh/run_state.h"

namespace rankcast::mesh {
namespace {

constexpr int kWorld = 3;
constexpr int kSlots = 2;

std::unique_ptr<link::Link> make_link() {
  link::LinkOptions options;
  options.world_size = kWorld;
  options.shared_bytes = RunTable::shared_bytes(kWorld, kSlots);
  return link::find_link("thread").value()->create(options).value();
}

class RunTableTest : public ::testing::Test {
 protected:
  void TearDown() override { base::disarm_all_fault_points(); }

  /// A state of one task a rank, ready to be published as run `run`.
  RunState* take(std::uint64_t run) {
    RunState* state = table_.try_take();
    if (state == nullptr) return nullptr;
    state->run = run;
    state->submit_begin_ns = 1;
    for (int rank = 0; rank < kWorld; ++rank) {
      RunLane lane;
      lane.rank = rank;
      lane.tasks = 1;
      EXPECT_TRUE(table_.reserve_frame(*state, lane, 256).ok());
      draft_.clear();
      frame::TaskRecord task;
      task.task = static_cast<std::uint32_t>(rank);
      task.arguments.count = 20;
      draft_.tasks.push(task);
      frame::write_frame(lane.frame_address, draft_, {}, rank, kWorld, base::StoreKind::ordinary);
      lane.end = base::TimelineValue::make(run, 1);
      state->lanes.push(lane);
    }
    EXPECT_TRUE(table_.reserve_outcomes(*state, kWorld).ok());
    return state;
  }
  RunState* published(std::uint64_t run) {
    RunState* state = take(run);
    table_.publish(*state);
    for (int rank = 0; rank < kWorld; ++rank) good_report(*state, rank);
    return state;
  }
  /// What a rank writes after a good run.
  void good_report(const RunState& state, int rank) {
    frame::LaneReport& lane = report(state, rank);
    lane = frame::LaneReport();
    lane.run = state.run;
    lane.entry_ns = 100 + rank;
    lane.exit_ns = 200 + rank;
  }
  /// Finishes a run whose second lane was damaged like this: the run's error.
  base::Status finished(const std::function<void(RunState&)>& damage) {
    RunState* state = published(++last_run_);
    damage(*state);
    table_.finish(*state);
    base::Status error = state->error;
    table_.drop(state);
    RunState* next = published(++last_run_);
    link_->control().channel(1).timeline.take_over(base::TimelineValue());
    table_.finish(*next);
    EXPECT_TRUE(next->error.ok()) << "nothing is left of it: " << next->error.text;
    table_.drop(next);
    return error;
  }
  frame::RunRecord& record(const RunState& state) {
    return *frame::SharedArea(link_->shared(), kWorld, kSlots).run_record(state.slot);
  }
  frame::LaneReport& report(const RunState& state, int rank) {
    return frame::lane_reports(&record(state))[rank];
  }

  std::unique_ptr<link::Link> link_ = make_link();
  RunTable table_{*link_, kSlots};
  frame::FrameDraft draft_;
  std::uint64_t last_run_ = 0;
};

TEST_F(RunTableTest, HasSoManySlotsAndNoMore) {
  RunState* a = table_.try_take();
  RunState* b = table_.try_take();
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_NE(a->slot, b->slot);
  EXPECT_EQ(table_.reserved(), 2);
  EXPECT_EQ(table_.try_take(), nullptr);
  const std::uint32_t slot = b->slot;
  table_.give_back(b);
  EXPECT_EQ(table_.reserved(), 1);
  RunState* c = table_.try_take();
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->slot, slot) << "the one that is warm";
  table_.give_back(a);
  table_.give_back(c);
  EXPECT_EQ(table_.reserved(), 0);
}

TEST_F(RunTableTest, AStateComesBackAsNew) {
  RunState* state = published(1);
  state->is_transfer = true;
  report(*state, 1).error_code = static_cast<std::uint8_t>(ErrorCode::task_failed);
  table_.finish(*state);
  state->error_told = true;
  EXPECT_TRUE(table_.drop(state));
  RunState* again = table_.try_take();
  ASSERT_EQ(again, state);
  EXPECT_FALSE(again->is_transfer) << "or its times would never count";
  EXPECT_FALSE(again->is_finished());
  EXPECT_FALSE(again->error_told);
  EXPECT_TRUE(again->error.ok());
  EXPECT_TRUE(again->lanes.empty());
  EXPECT_TRUE(again->held);
  table_.give_back(again);
}

TEST_F(RunTableTest, FramesHaveRoomOfTheirOwnThatIsUsedAgain) {
  std::set<std::byte*> places;
  std::array<RunState*, kSlots> states{take(1), take(2)};
  for (RunState* state : states) {
    for (const RunLane& lane : state->lanes) {
      EXPECT_EQ(lane.frame.bytes, 256u);
      EXPECT_EQ(lane.frame.offset % frame::kSectionAlignment, 0u);
      EXPECT_EQ(lane.frame_address, link_->segment(lane.frame.segment) + lane.frame.offset);
      EXPECT_TRUE(places.insert(lane.frame_address).second);
      std::memset(lane.frame_address, 1, lane.frame.bytes);
    }
  }
  for (RunState* state : states) table_.give_back(state);
  const std::uint64_t growths = base::scratch_growths;
  for (std::uint64_t run = 3; run < 9; ++run) {
    RunState* state = take(run);
    for (const RunLane& lane : state->lanes) EXPECT_TRUE(places.contains(lane.frame_address));
    table_.give_back(state);
  }
  EXPECT_EQ(base::scratch_growths, growths);

  RunState* state = table_.try_take();
  RunLane lane;
  ASSERT_TRUE(table_.reserve_frame(*state, lane, 1'000'000).ok());
  std::memset(lane.frame_address, 1, 1'000'000);
  EXPECT_GT(base::scratch_growths, growths);
  table_.give_back(state);
}

TEST_F(RunTableTest, NoMemoryForAFrameChangesNothing) {
  RunState* state = table_.try_take();
  RunLane lane;
  base::arm_fault_point("base.segment_reserve");
  const base::Status status = table_.reserve_frame(*state, lane, 256);
  EXPECT_EQ(status.code, ErrorCode::out_of_memory);
  base::arm_fault_point("base.segment_reserve");
  EXPECT_EQ(table_.reserve_outcomes(*state, 10).code, ErrorCode::out_of_memory);
  EXPECT_TRUE(table_.reserve_frame(*state, lane, 256).ok());
  EXPECT_TRUE(table_.reserve_outcomes(*state, 10).ok());
  table_.give_back(state);
}

TEST_F(RunTableTest, PublishFillsTheRecord) {
  RunState* state = published(7);
  EXPECT_EQ(record(*state).run, 7u);
  EXPECT_EQ(record(*state).tasks, 3u);
  EXPECT_GE(record(*state).outcomes.bytes, 3u);
  EXPECT_EQ(table_.reserved(), 0);
  EXPECT_EQ(table_.in_flight(), std::vector<RunState*>{state});
  EXPECT_FALSE(record(*state).lanes_left.count_down(6)) << "a late lane of another run";
  EXPECT_FALSE(record(*state).lanes_left.count_down(7));
  EXPECT_FALSE(record(*state).lanes_left.count_down(7));
  EXPECT_TRUE(record(*state).lanes_left.count_down(7)) << "the third lane is the last";
  table_.finish(*state);
  table_.drop(state);
}

TEST_F(RunTableTest, FinishTakesTheReports) {
  RunState* state = published(7);
  EXPECT_FALSE(state->is_finished());
  table_.finish(*state);
  EXPECT_TRUE(state->is_finished());
  EXPECT_TRUE(state->error.ok());
  EXPECT_TRUE(table_.in_flight().empty());
  for (const RunLane& lane : state->lanes) {
    EXPECT_EQ(lane.entry_ns, 100 + lane.rank);
    EXPECT_EQ(lane.exit_ns, 200 + lane.rank);
  }
  EXPECT_TRUE(table_.drop(state));
}

TEST_F(RunTableTest, TheFailureOfTheFirstTaskIsTheRuns) {
  RunState* state = published(7);
  const auto fail = [&](int rank, std::uint32_t task, const char* text) {
    frame::LaneReport& lane = report(*state, rank);
    lane.error_code = static_cast<std::uint8_t>(ErrorCode::task_failed);
    lane.error_task = task;
    lane.error_argument = rank + 10;
    std::strncpy(lane.error_text, text, frame::kErrorTextBytes - 1);
  };
  fail(1, 1, "later");
  fail(0, 0, "first");
  std::byte* outcomes =
      link_->segment(record(*state).outcomes.segment) + record(*state).outcomes.offset;
  std::memset(outcomes, 1, 3);
  table_.finish(*state);
  EXPECT_EQ(state->error.code, ErrorCode::task_failed);
  EXPECT_EQ(state->error.rank, 0);
  EXPECT_EQ(state->error.argument, 10);
  EXPECT_EQ(state->error.text, "run 7 failed: first");
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(outcomes[i], std::byte{0}) << "the next run of the slot starts with none";
  table_.drop(state);
}

TEST_F(RunTableTest, ATextWithoutAnEndIsCut) {
  RunState* state = published(7);
  frame::LaneReport& lane = report(*state, 1);
  lane.error_code = static_cast<std::uint8_t>(ErrorCode::internal);
  lane.error_task = frame::kNone;
  std::memset(lane.error_text, 'x', frame::kErrorTextBytes);
  table_.finish(*state);
  EXPECT_EQ(state->error.text, "run 7 failed: " + std::string(frame::kErrorTextBytes, 'x'));
  table_.drop(state);
}

TEST_F(RunTableTest, WhatARankCannotHaveWrittenIsAnErrorThatNamesIt) {
  const auto refused = [&](std::initializer_list<std::string> words, const auto& damage) {
    const base::Status error = finished([&](RunState& state) { damage(report(state, 1)); });
    EXPECT_EQ(error.code, ErrorCode::internal);
    EXPECT_EQ(error.rank, 1);
    EXPECT_EQ(error.argument, -1);
    EXPECT_THAT(error.text, ::testing::HasSubstr("failed: rank 1 "));
    for (const std::string& word : words) EXPECT_THAT(error.text, ::testing::HasSubstr(word));
  };
  using Report = frame::LaneReport;
  refused({"left no report"}, [](Report& r) { r.run += 1; });
  refused({"left no report"}, [](Report& r) { r.run = 0; });
  refused({"times"}, [](Report& r) { r.entry_ns = 0; });
  refused({"times"}, [](Report& r) { std::swap(r.entry_ns, r.exit_ns); });
  refused({"times"}, [](Report& r) { r.exit_ns = std::numeric_limits<std::int64_t>::max(); });
  refused({"times"}, [](Report& r) { r.entry_ns = std::numeric_limits<std::int64_t>::min(); });
  refused({"error code 15"}, [](Report& r) { r.error_code = 15; });
  const auto fail = [](Report& r) {
    r.error_code = static_cast<std::uint8_t>(ErrorCode::task_failed);
    r.error_task = 1;
  };
  refused({"task 2"}, [&](Report& r) {
    fail(r);
    r.error_task = 2;  // of another rank
  });
  refused({"argument 20 of task 1, which has 20"}, [&](Report& r) {
    fail(r);
    r.error_argument = 20;
  });
  refused({"argument -2"}, [&](Report& r) {
    fail(r);
    r.error_argument = -2;
  });
}

TEST_F(RunTableTest, AnOutcomeThatIsNoneNamesItsRank) {
  const base::Status error = finished([&](RunState& state) {
    report(state, 1).error_code = static_cast<std::uint8_t>(ErrorCode::task_failed);
    report(state, 1).error_task = 1;
    link_->segment(record(state).outcomes.segment)[record(state).outcomes.offset + 1] =
        std::byte{5};
    record(state).tasks = frame::kNone;  // nor is this believed
    record(state).outcomes = {~std::uint64_t{0}, frame::kNone, frame::kNone};
  });
  EXPECT_EQ(error.code, ErrorCode::internal);
  EXPECT_THAT(error.text, ::testing::HasSubstr("rank 1 wrote outcome 5 of task 1"));
}

TEST_F(RunTableTest, ATimelineAheadOfItsLastRecordNamesItsRank) {
  const base::Status error = finished([&](RunState& state) {
    link_->control().channel(1).timeline.take_over(base::TimelineValue::make(state.run + 7, 3));
  });
  EXPECT_EQ(error.code, ErrorCode::internal);
  EXPECT_EQ(error.rank, 1);
  EXPECT_THAT(error.text, ::testing::HasSubstr("3 tasks of run 8, but it was last given run 1 "));
}

TEST_F(RunTableTest, WhatARankToldInItsChannelIsPassedOn) {
  const base::Status error = finished([&](RunState& state) {
    report(state, 1).run = 0;
    link::Channel& channel = link_->control().channel(1);
    std::strncpy(channel.report, "it was a damaged record", link::kReportBytes - 1);
    channel.error_code = static_cast<std::uint32_t>(ErrorCode::internal);
  });
  EXPECT_THAT(error.text,
              ::testing::HasSubstr("left no report; it told rank 1: it was a damaged record"));
}

TEST_F(RunTableTest, ATextThatCannotBeShownIsMarked) {
  const base::Status error = finished([&](RunState& state) {
    frame::LaneReport& lane = report(state, 1);
    lane.error_code = static_cast<std::uint8_t>(ErrorCode::task_failed);
    lane.error_task = 1;
    std::strncpy(lane.error_text, "no\x1b[1m good\xff", frame::kErrorTextBytes - 1);
  });
  EXPECT_EQ(error.code, ErrorCode::task_failed);
  EXPECT_THAT(error.text, ::testing::HasSubstr("no?[1m good?"));
}

TEST_F(RunTableTest, ADroppedStateLivesAsLongAsItsRun) {
  RunState* state = published(3);
  EXPECT_FALSE(table_.drop(state));
  EXPECT_FALSE(state->held);
  RunState* other = take(4);
  EXPECT_NE(other, state);
  table_.give_back(other);
  table_.finish(*state);
  table_.recycle(state);
  EXPECT_NE(table_.try_take(), nullptr);
}

TEST_F(RunTableTest, KnowsTheOldestRun) {
  EXPECT_EQ(table_.oldest_run(9), 9u);
  RunState* a = published(5);
  RunState* b = published(6);
  EXPECT_EQ(table_.oldest_run(7), 5u);
  table_.finish(*a);
  EXPECT_EQ(table_.oldest_run(7), 6u);
  table_.finish(*b);
  EXPECT_EQ(table_.oldest_run(7), 7u);
  table_.drop(a);
  table_.drop(b);
}

TEST_F(RunTableTest, ARunOfNothingTakesNoSlot) {
  RunState* empty = table_.take_empty();
  EXPECT_TRUE(empty->is_finished());
  EXPECT_TRUE(empty->lanes.empty());
  EXPECT_NE(table_.try_take(), nullptr);
  EXPECT_NE(table_.try_take(), nullptr);
  EXPECT_TRUE(table_.drop(empty));
}

TEST(LinkHeap, AddsSegmentsOfItsLinkAsItGrows) {
  const auto link = make_link();
  ASSERT_TRUE(link->add_segment(
      4096, -1, link::Access::all_write));  // so that ids of the heap and of the link differ
  LinkHeap heap(*link, 0, link::Access::owner_writes, 2 << 20);
  EXPECT_EQ(heap.reserved_bytes(), 0u);
  std::vector<memory::Block> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(heap.allocate(1'500'000).value());
  EXPECT_EQ(heap.reserved_bytes(), std::uint64_t{5} * (2 << 20));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(heap.segment_id(blocks[i]), i + 1);
    EXPECT_EQ(heap.address(blocks[i]),
              link->segment(heap.segment_id(blocks[i])) + blocks[i].offset);
    std::memset(heap.address(blocks[i]), 3, 1'500'000);
  }
  const memory::Block large = heap.allocate(3 << 20).value();
  std::memset(heap.address(large), 3, 3 << 20);
  for (const memory::Block& block : blocks) heap.release(block);
  heap.release(large);
  EXPECT_EQ(heap.live_bytes(), 0u);
  const std::uint64_t reserved = heap.reserved_bytes();
  heap.release(heap.allocate(3 << 20).value());
  EXPECT_EQ(heap.reserved_bytes(), reserved);
}

TEST(LinkHeap, TellsWhenTheLinkHasNone) {
  const auto link = make_link();
  LinkHeap heap(*link, 0, link::Access::owner_writes, 64 * 1024);
  base::arm_fault_point("base.segment_reserve");
  const auto refused = heap.allocate(10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(heap.reserved_bytes(), 0u);
  EXPECT_EQ(heap.segment_id(heap.allocate(10).value()), 0u);
}

}  // namespace
}  // namespace rankcast::mesh
