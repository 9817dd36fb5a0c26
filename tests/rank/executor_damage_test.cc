// The rank's loop behind a real link: what a good record does, and that a damaged one fails its run
// and nothing else.
// tests: src/rank/task_runner.cc
// tests: src/rank/frames.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/fault_point.h"
#include "rank/executor.h"
#include "rank/executor_rig.h"

namespace rankcast::rank {
namespace {

using frame::Outcome;
using ::testing::HasSubstr;

constexpr int kRank = 1;
constexpr std::uint32_t kSlot = 5;
constexpr std::uint32_t kGeneration = 3;
constexpr std::uint32_t kBufferBytes = 64;

/// All that makes one record, before it is written.
struct Dispatch {
  frame::FrameDraft draft;
  std::vector<frame::LayoutRecord> layouts;
  std::vector<frame::TableChange> changes;
  std::uint32_t tasks = 0;
};

class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() {
    add_ = rig_.add_kernel("test.add", [this](const KernelCall& call) {
      *static_cast<float*>(call.tensors[0].data) += 1;
      launches_.fetch_add(1);
    });
    fail_ = rig_.add_kernel("test.fail",
                            [](const KernelCall&) { throw std::runtime_error("no good"); });
    count_ = rig_.add_kernel("test.count", [this](const KernelCall&) { launches_.fetch_add(1); });
    EXPECT_TRUE(rig_.start().ok());
    buffer_ = rig_.add_block(kBufferBytes);
    Dispatch fill = good();
    fill.changes = {change()};
    EXPECT_EQ(run(fill).text, "");
    launches_.store(0);
  }

  frame::TableChange change() const {
    return {0, kBufferBytes, kSlot, kGeneration, buffer_.segment, 0};
  }

  static void add_task(Dispatch& dispatch, std::uint32_t kernel, std::uint32_t arguments = 0) {
    frame::TaskRecord task;
    task.kernel = kernel;
    task.task = dispatch.tasks++;
    task.arguments = {static_cast<std::uint32_t>(dispatch.draft.arguments.size()) - arguments,
                      arguments};
    dispatch.draft.tasks.push(task);
  }
  static void add_argument(Dispatch& dispatch) {
    frame::ArgumentRecord argument;
    argument.slot = kSlot;
    argument.generation = kGeneration;
    argument.lane = kRank;
    argument.tag = Tag::no_dep;
    dispatch.draft.arguments.push(argument);
  }

  /// Adds 1 to the buffer's first element.
  Dispatch good() const {
    Dispatch dispatch;
    dispatch.layouts = {tensor::contiguous_layout(DType::f32, {4})};
    add_argument(dispatch);
    add_task(dispatch, add_, 1);
    return dispatch;
  }

  using DamageRecord = std::function<void(frame::Record&)>;
  using DamageBytes = std::function<void(std::byte*)>;

  LaneResult run(const Dispatch& dispatch, const DamageRecord& damage = {},
                 const DamageBytes& damage_frame = {}, const DamageBytes& damage_side = {}) {
    const frame::BlockRef block = rig_.write(dispatch.draft, dispatch.layouts, kRank);
    if (damage_frame) damage_frame(rig_.address(block));
    frame::Record record = rig_.record_of(kRank, block, dispatch.tasks);
    if (!dispatch.changes.empty()) {
      record.side = rig_.write(frame::SideDraft{dispatch.changes, {}, {}});
      if (damage_side) damage_side(rig_.address(record.side));
    }
    if (damage) damage(record);
    return rig_.run(kRank, record);
  }

  /// The run fails with `internal` and these words, no kernel ran, and the lane goes on.
  void expect_refused(const LaneResult& result, std::initializer_list<std::string> words) {
    EXPECT_EQ(result.report.error_code, static_cast<std::uint8_t>(ErrorCode::internal))
        << result.text;
    for (const std::string& word : words) EXPECT_THAT(result.text, HasSubstr(word));
    EXPECT_EQ(launches_.load(), 0);
    EXPECT_LE(result.report.entry_ns, result.report.exit_ns);
    const float before = first();
    const LaneResult next = run(good());
    EXPECT_EQ(next.text, "");
    EXPECT_EQ(next.report.error_code, 0);
    EXPECT_EQ(first(), before + 1) << "the lane goes on";
    launches_.store(0);
  }

  float first() { return *reinterpret_cast<float*>(rig_.address(buffer_)); }

  std::atomic<int> launches_{0};
  ExecutorRig rig_;
  std::uint32_t add_ = 0;
  std::uint32_t fail_ = 0;
  std::uint32_t count_ = 0;
  frame::BlockRef buffer_;
};

TEST_F(ExecutorTest, AGoodRecordRuns) {
  const float before = first();
  Dispatch dispatch = good();
  add_argument(dispatch);
  add_task(dispatch, add_, 1);
  const LaneResult result = run(dispatch);
  EXPECT_EQ(result.report.error_code, 0);
  EXPECT_EQ(result.report.error_task, frame::kNone);
  EXPECT_LE(result.report.entry_ns, result.report.exit_ns);
  EXPECT_EQ(first(), before + 2);
  EXPECT_THAT(result.outcomes, ::testing::Each(Outcome::good))
      << "a healthy run touches no outcome";
}

TEST_F(ExecutorTest, AFailurePoisonsWhatNeedsIt) {
  Dispatch dispatch;
  for (const std::uint32_t kernel : {count_, fail_, count_, count_, fail_, count_}) {
    add_task(dispatch, kernel);
  }
  const auto edge = [&](std::uint32_t task, std::uint32_t earlier) {
    dispatch.draft.tasks[task].edges = {static_cast<std::uint32_t>(dispatch.draft.edges.size()), 1};
    dispatch.draft.edges.push(earlier);
  };
  edge(2, 1 | frame::kNeeds);
  edge(3, 1);  // the order alone
  edge(5, 2 | frame::kNeeds);
  const LaneResult result = run(dispatch);
  EXPECT_EQ(result.report.error_code, static_cast<std::uint8_t>(ErrorCode::task_failed));
  EXPECT_EQ(result.report.error_task, 1u) << "the first failure";
  EXPECT_THAT(result.text, HasSubstr("task 1 ('test.fail') on rank 1: no good"));
  EXPECT_EQ(launches_.load(), 2);
  const std::vector<Outcome> outcomes(result.outcomes.begin(), result.outcomes.begin() + 6);
  EXPECT_THAT(outcomes, ::testing::ElementsAre(Outcome::good, Outcome::failed, Outcome::poisoned,
                                               Outcome::good, Outcome::failed, Outcome::poisoned));
  launches_.store(0);
  EXPECT_EQ(run(good()).report.error_code, 0);
}

TEST_F(ExecutorTest, ACancelledRunStartsNothing) {
  rig_.damage_run = [](frame::RunRecord& run) { base::store_seq_cst(run.cancel, 1u); };
  Dispatch dispatch;
  for (const std::uint32_t kernel : {count_, fail_}) add_task(dispatch, kernel);
  const LaneResult result = run(dispatch);
  EXPECT_EQ(result.report.error_code, static_cast<std::uint8_t>(ErrorCode::cancelled));
  EXPECT_EQ(result.report.error_task, 0u);
  EXPECT_THAT(result.text, HasSubstr("task 0 ('test.count') on rank 1: not started"));
  EXPECT_EQ(launches_.load(), 0);
  EXPECT_EQ(result.outcomes[0], Outcome::cancelled);
  EXPECT_EQ(result.outcomes[1], Outcome::cancelled);
}

TEST_F(ExecutorTest, DamagedRecords) {
  const auto refused = [&](std::initializer_list<std::string> words, const DamageRecord& damage) {
    expect_refused(run(good(), damage), words);
  };
  refused({"damaged record", "format 9"}, [](frame::Record& r) { r.format = 9; });
  refused({"damaged record", "kind 9"},
          [](frame::Record& r) { r.kind = static_cast<frame::RecordKind>(9); });
  refused({"damaged record", "lane 0"}, [](frame::Record& r) { r.lane = 0; });
  refused({"2 tasks", "has 1"}, [](frame::Record& r) { r.tasks = 2; });
  refused({"0 tasks", "has 1"}, [](frame::Record& r) { r.tasks = 0; });
  refused({"frame is in no segment"}, [](frame::Record& r) { r.frame.segment = 9999; });
  refused({"frame is in no segment"}, [](frame::Record& r) { r.frame.segment = frame::kNone; });
  refused({"frame is in no segment"}, [](frame::Record& r) { r.frame.offset = 32; });
  refused({"frame is in no segment"},
          [](frame::Record& r) { r.frame.offset = std::uint64_t{1} << 40; });
  refused({"frame is in no segment"}, [](frame::Record& r) { r.frame.bytes = 1u << 30; });
  refused({"do not hold a header"}, [](frame::Record& r) { r.frame.bytes = 0; });
  refused({"damaged frame", "its header says"}, [](frame::Record& r) { r.frame.bytes -= 64; });
  refused({"side block is in no segment"}, [](frame::Record& r) { r.side = {0, 9999, 64}; });
  refused({"side block is in no segment"},
          [](frame::Record& r) { r.side = {8, r.frame.segment, 64}; });
  refused({"damaged side block", "magic"},
          [](frame::Record& r) { r.side = {0, r.frame.segment, r.frame.bytes}; });
}

TEST_F(ExecutorTest, ADamagedStopRecordStopsNobody) {
  frame::Record stop = rig_.record_of(kRank, {}, 0);
  stop.kind = frame::RecordKind::stop;
  stop.lane = 0;
  expect_refused(rig_.run(kRank, stop), {"damaged record", "kind 2", "lane 0"});
}

// Nowhere to put an answer: the lane skips the record, says so in its channel, and goes on.
TEST_F(ExecutorTest, ARecordWithoutARunRecordIsSkipped) {
  for (const std::uint32_t index : {ExecutorRig::kRunRecords, 4'000'000'000u}) {
    const Dispatch dispatch = good();
    frame::Record record =
        rig_.record_of(kRank, rig_.write(dispatch.draft, dispatch.layouts, kRank), dispatch.tasks);
    record.run_record = index;
    rig_.send(kRank, record);
    rig_.wait_for(kRank, base::TimelineValue::make(record.run, record.tasks));
    EXPECT_EQ(launches_.load(), 0);
    const base::Status told = link::report_of(rig_.link().control().channel(kRank), kRank);
    EXPECT_EQ(told.code, ErrorCode::internal);
    EXPECT_EQ(told.rank, kRank);
    EXPECT_THAT(told.text, HasSubstr("rank 1: damaged record: kind 1, run 2 with 1 tasks, run "
                                     "record 4 of 4, after run 1 with 1"))
        << "the first one stays";
  }
  EXPECT_TRUE(link::report_of(rig_.link().control().channel(0), 0).ok());
  EXPECT_EQ(run(good()).report.error_code, 0);
  EXPECT_EQ(launches_.load(), 1);
}

// Where the timeline would go back, or cannot go, there is no going on.
TEST_F(ExecutorTest, ARankThatIsSentBackGivesUp) {
  const auto refused = [](std::uint64_t run, std::uint32_t tasks) {
    ExecutorRig rig;
    ASSERT_TRUE(rig.start().ok());
    rig.run(kRank, rig.record_of(kRank, {}, 0));
    const base::TimelineValue before = rig.link().timeline(kRank).load();
    frame::Record record;
    record.run = run;
    record.tasks = tasks;
    record.lane = kRank;
    rig.send(kRank, record);
    const link::Channel& channel = rig.link().control().channel(kRank);
    rig.wait_until(
        [&]() noexcept { return base::load_seq_cst(channel.state) == link::RankState::failed; });
    EXPECT_EQ(rig.link().timeline(kRank).load(), before);
    EXPECT_THAT(link::report_of(channel, kRank).text, HasSubstr("rank 1: damaged record"));
  };
  refused(1, 0);
  refused(0, 3);
  refused(base::TimelineValue::kMaxRun + 1, 1);
  refused(~std::uint64_t{0}, 0);
  refused(2, base::TimelineValue::kMaxTasks + 1);
}

TEST_F(ExecutorTest, OutcomesThatHaveNoPlaceFailTheRun) {
  const auto refused = [&](std::initializer_list<std::string> words,
                           const std::function<void(frame::RunRecord&)>& damage) {
    Dispatch dispatch;
    for (const std::uint32_t kernel : {fail_, count_}) add_task(dispatch, kernel);
    dispatch.draft.edges.push(0 | frame::kNeeds);
    dispatch.draft.tasks[1].edges = {0, 1};
    rig_.damage_run = damage;
    const LaneResult result = run(dispatch);
    rig_.damage_run = {};
    expect_refused(result, words);
    EXPECT_THAT(result.text, HasSubstr("before that: task 0 ('test.fail') on rank 1: no good"));
    EXPECT_EQ(result.report.error_task, 0u);
    EXPECT_THAT(result.outcomes, ::testing::Each(Outcome::good));
  };
  refused({"damaged run record", "of segment 9999"},
          [](frame::RunRecord& run) { run.outcomes.segment = 9999; });
  refused({"damaged run record", "at 32 of segment"},
          [](frame::RunRecord& run) { run.outcomes.offset = 32; });
  refused({"damaged run record", "outcomes of 64 tasks in 8 bytes"},
          [](frame::RunRecord& run) { run.outcomes.bytes = 8; });
  refused({"damaged run record", "outcomes of 4294967295 tasks"},
          [](frame::RunRecord& run) { run.tasks = frame::kNone; });
}

TEST_F(ExecutorTest, AnArgumentThatTheTaskDoesNotHaveIsNotPassedOn) {
  const std::uint32_t kernel = rig_.add_kernel("test.argument", [](const KernelCall& call) {
    throw Error(ErrorCode::task_failed, "that one",
                {.argument = static_cast<int>(*static_cast<float*>(call.tensors[0].data))});
  });
  for (const auto& [said, told] :
       std::vector<std::pair<float, int>>{{0.0f, 0}, {1.0f, -1}, {1e6f, -1}, {-7.0f, -1}}) {
    Dispatch dispatch = good();
    dispatch.draft.tasks[0].kernel = kernel;
    *reinterpret_cast<float*>(rig_.address(buffer_)) = said;
    const LaneResult result = run(dispatch);
    EXPECT_THAT(result.text, HasSubstr("that one"));
    EXPECT_EQ(result.report.error_argument, told);
  }
}

TEST_F(ExecutorTest, DamagedFrames) {
  expect_refused(run(good(), {}, [](std::byte* frame) { frame[0] ^= std::byte{1}; }),
                 {"damaged frame", "magic"});
  Dispatch other_lane = good();
  const frame::BlockRef block = rig_.write(other_lane.draft, other_lane.layouts, 0);
  expect_refused(rig_.run(kRank, rig_.record_of(kRank, block, 1)),
                 {"for lane 0 of 2 ranks, but this is lane 1"});

  const auto refused = [&](std::initializer_list<std::string> words,
                           const std::function<void(Dispatch&)>& damage) {
    Dispatch dispatch = good();
    damage(dispatch);
    expect_refused(run(dispatch), words);
  };
  using Argument = frame::ArgumentRecord;
  const auto argument = [](Dispatch& d) -> Argument& { return d.draft.arguments[0]; };
  refused({"slot 6", "generation 0"}, [&](Dispatch& d) { argument(d).slot = 6; });
  refused({"slot 4000000000"}, [&](Dispatch& d) { argument(d).slot = 4'000'000'000; });
  refused({"generation 5", "has generation 3"}, [&](Dispatch& d) { argument(d).generation = 5; });
  refused({"generation 0"}, [&](Dispatch& d) { argument(d).generation = 0; });
  refused({"slot 2 generation 0"}, [&](Dispatch& d) {
    argument(d).slot = 2;  // nobody has it: the empty entry's generation is 0 as well
    argument(d).generation = 0;
  });
  refused({"offset 52", "64 bytes"}, [&](Dispatch& d) { argument(d).offset = 52; });
  refused({"offset 65"}, [&](Dispatch& d) { argument(d).offset = 65; });
  refused({"offset 18446744073709551612"},
          [&](Dispatch& d) { argument(d).offset = ~std::uint64_t{3}; });
  refused({"offset 2"}, [&](Dispatch& d) { argument(d).offset = 2; });
  refused({"64 bytes"},
          [&](Dispatch& d) { d.layouts[0] = tensor::contiguous_layout(DType::f32, {17}); });
  refused({"argument 0", "at 0 of segment 9999"}, [&](Dispatch& d) {
    argument(d).place = frame::Place::segment;
    argument(d).slot = 9999;
  });
  refused({"argument 0", "at 4096 of segment"}, [&](Dispatch& d) {
    argument(d).place = frame::Place::segment;
    argument(d).slot = buffer_.segment;
    argument(d).offset = 4096;
  });
  refused({"argument 0", "place 3"},
          [&](Dispatch& d) { argument(d).place = frame::Place::staging; });
  refused({"a heap block of 0 bytes"},
          [&](Dispatch& d) { argument(d).place = frame::Place::heap; });
  refused({"argument 0", "a temporary of rank 4000"}, [&](Dispatch& d) {
    argument(d).place = frame::Place::heap;
    argument(d).lane = 4000;
  });
  refused({"task 0 ('unknown kernel')", "kernel 4000"},
          [&](Dispatch& d) { d.draft.tasks[0].kernel = 4000; });
  for (const frame::TaskKind kind : {frame::TaskKind::copy_send}) {
    refused({"task 0", "kind " + std::to_string(static_cast<int>(kind))}, [&](Dispatch& d) {
      add_argument(d);
      d.draft.tasks[0].arguments = {0, 2};
      d.draft.tasks[0].kind = kind;
    });
  }
}

TEST_F(ExecutorTest, ATaskNumberOutsideOfTheRunWritesNoOutcome) {
  Dispatch dispatch;
  add_task(dispatch, fail_);
  dispatch.draft.tasks[0].task = ExecutorRig::kOutcomes;
  LaneResult result = run(dispatch);
  EXPECT_EQ(result.report.error_code, static_cast<std::uint8_t>(ErrorCode::task_failed));
  EXPECT_THAT(result.outcomes, ::testing::Each(Outcome::good));
  dispatch.draft.tasks[0].task = frame::kNone;
  result = run(dispatch);
  EXPECT_THAT(result.outcomes, ::testing::Each(Outcome::good));
}

TEST_F(ExecutorTest, DamagedSideBlocks) {
  const auto refused = [&](std::initializer_list<std::string> words,
                           const frame::TableChange& change, const DamageBytes& damage = {}) {
    Dispatch dispatch = good();
    dispatch.changes = {change};
    expect_refused(run(dispatch, {}, {}, damage), words);
  };
  refused({"damaged side block"}, change(), [](std::byte* side) { side[0] ^= std::byte{1}; });
  frame::TableChange bad = change();
  bad.slot = frame::kNone;
  refused({"damaged side block", "slot 4294967295"}, bad);
  bad = {0, 64, 7, 1, 9999, 0};
  refused({"segment 9999"}, bad);
  bad = {4096, 64, 7, 1, buffer_.segment, 0};
  refused({"64 bytes at 4096", "which has 4096"}, bad);
  bad = {~std::uint64_t{0}, 64, 7, 1, buffer_.segment, 0};
  refused({"64 bytes at 18446744073709551615"}, bad);
  bad = {0, 5000, 7, 1, buffer_.segment, 0};
  refused({"5000 bytes at 0"}, bad);
}

TEST_F(ExecutorTest, TableChangesComeBeforeTheFrame) {
  const frame::BlockRef other = rig_.add_block(kBufferBytes);
  Dispatch dispatch = good();
  dispatch.changes = {{0, 0, kSlot, 0, 0, 0}, {0, kBufferBytes, kSlot, 7, other.segment, 0}};
  dispatch.draft.arguments[0].generation = 7;
  EXPECT_EQ(run(dispatch).text, "");
  EXPECT_EQ(*reinterpret_cast<float*>(rig_.address(other)), 1.0f);
  launches_.store(0);
  const LaneResult old = run(good());
  EXPECT_EQ(old.report.error_code, static_cast<std::uint8_t>(ErrorCode::internal));
  EXPECT_THAT(old.text, HasSubstr("this rank has generation 7"));
  EXPECT_EQ(launches_.load(), 0);
}

TEST_F(ExecutorTest, UploadsAndDownloadsReachTheHost) {
  float host[4] = {1, 2, 3, 4};
  float back[4] = {};
  const auto transfer = [&](frame::TaskKind kind, float* memory) {
    Dispatch dispatch;
    dispatch.layouts = {tensor::contiguous_layout(DType::f32, {4})};
    add_argument(dispatch);
    frame::ArgumentRecord on_host;
    on_host.offset = reinterpret_cast<std::uint64_t>(memory);
    on_host.place = frame::Place::host;
    dispatch.draft.arguments.push(on_host);
    add_task(dispatch, frame::kNone, 2);
    dispatch.draft.tasks[0].kind = kind;
    return run(dispatch);
  };
  EXPECT_EQ(transfer(frame::TaskKind::upload, host).text, "");
  EXPECT_EQ(first(), 1.0f);
  EXPECT_EQ(transfer(frame::TaskKind::download, back).text, "");
  EXPECT_EQ(std::memcmp(host, back, sizeof(host)), 0);
}

TEST_F(ExecutorTest, ATransferBetweenTwoShapesIsDamage) {
  float host[4] = {9, 9, 9, 9};
  for (const auto kind : {frame::TaskKind::upload, frame::TaskKind::download}) {
    Dispatch dispatch;
    dispatch.layouts = {tensor::contiguous_layout(DType::f32, {4}),
                        tensor::contiguous_layout(DType::f32, {2, 2})};
    add_argument(dispatch);
    frame::ArgumentRecord on_host;
    on_host.offset = reinterpret_cast<std::uint64_t>(host);
    on_host.layout = 1;
    on_host.place = frame::Place::host;
    dispatch.draft.arguments.push(on_host);
    add_task(dispatch, frame::kNone, 2);
    dispatch.draft.tasks[0].kind = kind;
    EXPECT_THAT(run(dispatch).text, HasSubstr("a transfer between f32[4] and f32[2, 2]"));
  }
  EXPECT_NE(first(), 9.0f);
  EXPECT_EQ(host[0], 9.0f);
}

TEST(RankMain, ADeviceThatCannotBeMadeIsReported) {
  ExecutorRig rig("cpu:0-1");
  base::arm_fault_point("rank.start", 1);
  const base::Status status = rig.start();
  EXPECT_EQ(status.code, ErrorCode::internal);
  EXPECT_GE(status.rank, 0);
  EXPECT_THAT(status.text, HasSubstr("made to fail at start"));
  EXPECT_EQ(base::armed_fault_points(), 0);
}

TEST(PlanRanks, OnePlanADevice) {
  const auto plans = plan_ranks("cpu:2,null:0?delay_us=5").value();
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].device, "cpu:2");
  EXPECT_TRUE(plans[0].computes);
  EXPECT_EQ(plans[1].device, "null:0");
  EXPECT_FALSE(plans[1].computes);
  EXPECT_FALSE(plans[1].description.empty());
  for (const char* bad : {"", "gpu:0", "cpu:0?x=1", "cpu:0,cpu:0"}) {
    const auto refused = plan_ranks(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace rankcast::rank
