#include "bench/lib/dispatch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "bench/lib/report.h"
#include "support/expect_error.h"

namespace rankcast::bench {
namespace {

DispatchOptions small_options() {
  DispatchOptions options;
  options.devices = "cpu:0-2";
  options.rounds = 25;
  options.tensor_args = 5;
  options.reference_command = std::string(RANKCAST_TEST_COMMAND);
  return options;
}

void expect_rounds(const SideResult& side, std::size_t rounds, std::size_t blocks,
                   std::size_t ranks) {
  for (const BlockSeries* series :
       {&side.submit_us, &side.wait_us, &side.total_us, &side.entry_spread_us}) {
    EXPECT_EQ(series->values.size(), rounds);
    EXPECT_EQ(series->block_count(), blocks);
  }
  ASSERT_EQ(side.entry_us.size(), ranks);
  for (const std::vector<double>& entries : side.entry_us) EXPECT_EQ(entries.size(), rounds);
}

TEST(Dispatch, RunsAndVerifiesEveryRoundOfAllSides) {
  const DispatchResult result = run_dispatch(small_options());
  EXPECT_EQ(result.verified, true) << wrong_result_text(result);
  EXPECT_EQ(result.ranks, 3);
  EXPECT_EQ(result.tensor_args, 5);
  EXPECT_EQ(result.links[0].live_buffers, 15U);
  EXPECT_GT(result.dispatches, 25U);
  expect_rounds(result.links[0].product, 25, 2, 3);
  expect_rounds(result.links[0].repacked, 25, 2, 3);
  expect_rounds(result.links[0].reused, 25, 2, 3);
  EXPECT_GT(result.links[0].ratio.submit, 0);
  EXPECT_GT(result.links[0].ratio.total, 0);
  EXPECT_FALSE(result.links[0].minimum);
}

TEST(Dispatch, CountsTheTimedSubmitsAlone) {
  const DispatchResult result = run_dispatch(small_options());
  EXPECT_EQ(result.links[0].counters.submits, 25U);
  EXPECT_EQ(result.links[0].counters.descriptors_built, 0U)
      << "nothing was freed since the warm-up";
  EXPECT_EQ(result.links[0].counters.allocations, 0U) << "a submit allocates once it is warm";
  EXPECT_GT(result.links[0].counters.bytes_written, 0U);
}

TEST(Dispatch, LiveBuffersDoNotChangeWhatASubmitLooksAt) {
  DispatchOptions options = small_options();
  options.live_buffers = 5001;
  const DispatchResult result = run_dispatch(options);
  EXPECT_EQ(result.verified, true) << wrong_result_text(result);
  EXPECT_EQ(result.links[0].live_buffers, 5001U);
  ASSERT_TRUE(result.links[0].minimum);
  EXPECT_EQ(result.links[0].minimum->live_buffers, 15U);
  EXPECT_EQ(result.links[0].minimum->counters.table_visits, result.links[0].counters.table_visits);
  EXPECT_GT(result.links[0].minimum->submit_ratio, 0);
  expect_rounds(result.links[0].minimum->product, 25, 2, 3);
}

TEST(Dispatch, BothLinksTakeTurnsInOneRun) {
  DispatchOptions options = small_options();
  options.link = "process,thread";
  const DispatchResult result = run_dispatch(options);
  EXPECT_EQ(result.verified, true) << wrong_result_text(result);
  ASSERT_EQ(result.links.size(), 2U);
  EXPECT_EQ(result.links[0].link, "process");
  EXPECT_EQ(result.links[1].link, "thread");
  EXPECT_EQ(result.dispatches, result.links[0].dispatches + result.links[1].dispatches);
  for (const LinkResult& link : result.links) {
    EXPECT_EQ(link.verified, true);
    EXPECT_GT(link.dispatches, 25U);
    EXPECT_EQ(link.counters.submits, 25U);
    EXPECT_EQ(link.counters.allocations, 0U);
    EXPECT_EQ(link.counters.table_visits, result.links[0].counters.table_visits);
    EXPECT_EQ(link.counters.bytes_written, result.links[0].counters.bytes_written);
    EXPECT_FALSE(link.calibration.empty());
    EXPECT_EQ(link.reference_ranks, link.link);
    EXPECT_GT(link.ratio.submit, 0);
    expect_rounds(link.product, 25, 2, 3);
    expect_rounds(link.repacked, 25, 2, 3);
    expect_rounds(link.reused, 25, 2, 3);
  }
  ASSERT_TRUE(result.process_over_thread);
  EXPECT_DOUBLE_EQ(
      result.process_over_thread->submit,
      block_ratio(result.links[0].product.submit_us, result.links[1].product.submit_us));
  EXPECT_DOUBLE_EQ(result.process_over_thread->total,
                   block_ratio(result.links[0].product.total_us, result.links[1].product.total_us));
}

TEST(Dispatch, LiveBuffersAreOnTheMeshOfEachLink) {
  DispatchOptions options = small_options();
  options.link = "thread,process";
  options.live_buffers = 200;
  const DispatchResult result = run_dispatch(options);
  EXPECT_EQ(result.verified, true) << wrong_result_text(result);
  for (const LinkResult& link : result.links) {
    EXPECT_EQ(link.live_buffers, 200U);
    ASSERT_TRUE(link.minimum);
    EXPECT_EQ(link.minimum->live_buffers, 15U);
    EXPECT_GT(link.minimum->submit_ratio, 0);
  }
}

TEST(Dispatch, OneLinkIsComparedWithNoOther) {
  DispatchOptions options = small_options();
  options.link = "process";
  const DispatchResult result = run_dispatch(options);
  EXPECT_EQ(result.verified, true) << wrong_result_text(result);
  ASSERT_EQ(result.links.size(), 1U);
  EXPECT_EQ(result.links[0].reference_ranks, "process");
  EXPECT_FALSE(result.process_over_thread);
}

TEST(Dispatch, AFreeBetweenRoundsHasEveryHandleChecked) {
  DispatchOptions options = small_options();
  options.between = "free";
  const DispatchResult result = run_dispatch(options);
  EXPECT_EQ(result.verified, true) << wrong_result_text(result);
  EXPECT_EQ(result.links[0].counters.table_visits, 25U * 3 * 5);
  EXPECT_EQ(result.links[0].counters.descriptors_built, 0U);
  EXPECT_EQ(result.links[0].counters.allocations, 0U);
}

TEST(Dispatch, RotatedInputsAreAllReplaced) {
  DispatchOptions options = small_options();
  options.between = "rotate";
  const DispatchResult result = run_dispatch(options);
  EXPECT_EQ(result.verified, true) << wrong_result_text(result);
  EXPECT_EQ(result.links[0].counters.table_visits, 25U * 3 * 4) << "all but the output";
  EXPECT_EQ(result.links[0].counters.descriptors_built, 25U * 3 * 4);
  EXPECT_EQ(result.links[0].counters.allocations, 0U);
}

TEST(Dispatch, NullDevicesLeaveNothingToVerify) {
  DispatchOptions options = small_options();
  options.devices = "null:0-2";
  const DispatchResult result = run_dispatch(options);
  EXPECT_FALSE(result.verified.has_value());
  EXPECT_FALSE(result.links[0].reference_runs_kernel);
  expect_rounds(result.links[0].product, 25, 2, 3);
}

// Sums as rankcast.sum does, but adds one to element 3 on rank 1 in every tenth call.
KernelOverride wrong_sum(std::atomic<int>& calls) {
  return {"test.wrong_sum", [&calls](const KernelCall& call) {
            float* out = static_cast<float*>(call.tensors.back().data);
            std::fill(out, out + 16, 0.0F);
            for (const DLTensor& in : call.tensors.first(call.tensors.size() - 1)) {
              for (int i = 0; i < 16; ++i) out[i] += static_cast<const float*>(in.data)[i];
            }
            if (call.context.rank == 1 && calls.fetch_add(1) % 10 == 9) out[3] += 1;
          }};
}

TEST(Dispatch, AWrongResultIsCaughtInTheRoundInWhichItCame) {
  std::atomic<int> calls{0};
  DispatchOptions options = small_options();
  options.kernel = wrong_sum(calls);
  const DispatchResult result = run_dispatch(options);
  EXPECT_EQ(result.verified, false);
  ASSERT_TRUE(result.wrong);
  EXPECT_EQ(result.wrong->side, "mesh");
  EXPECT_EQ(result.wrong->round, 10U);
  EXPECT_EQ(result.wrong->mismatch.rank, 1);
  EXPECT_EQ(result.wrong->mismatch.element, 3);
  EXPECT_EQ(std::stoi(result.wrong->mismatch.found),
            std::stoi(result.wrong->mismatch.expected) + 1);
  EXPECT_EQ(result.wrong_rounds, static_cast<std::uint64_t>(calls.load() / 10));
}

TEST(Dispatch, AKernelThatFailsEndsTheRun) {
  DispatchOptions options = small_options();
  options.kernel = KernelOverride{
      "test.fails", [](const KernelCall&) { throw std::runtime_error("no luck today"); }};
  test::expect_error(ErrorCode::task_failed, {"no luck today"}, [&] { run_dispatch(options); });
}

TEST(Dispatch, ProgressIsToldAndWhatItThrowsEndsTheRun) {
  double last = -1;
  int calls = 0;
  run_dispatch(small_options(), [&](double done) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, 1);
    last = done;
    ++calls;
  });
  EXPECT_GT(last, 0.9);
  EXPECT_GT(calls, 75);
  EXPECT_THROW(run_dispatch(small_options(), [](double) { throw std::domain_error("stop"); }),
               std::domain_error);
}

TEST(Dispatch, BadOptionsAreNamedWithWhatIsAccepted) {
  const auto refused = [](std::initializer_list<std::string> words, auto change) {
    DispatchOptions options = small_options();
    change(options);
    test::expect_error(ErrorCode::invalid_argument, words, [&] { run_dispatch(options); });
  };
  refused({"--rounds", "0"}, [](DispatchOptions& o) { o.rounds = 0; });
  refused({"--rounds", "-3"}, [](DispatchOptions& o) { o.rounds = -3; });
  refused({"--tensor-args", "1", "2"}, [](DispatchOptions& o) { o.tensor_args = 1; });
  refused({"--gap-us", "-1"}, [](DispatchOptions& o) { o.gap_us = -1; });
  refused({"--mode", "bound", "orchestrated"}, [](DispatchOptions& o) { o.mode = "bound"; });
  refused({"--between", "sleep", "rotate"}, [](DispatchOptions& o) { o.between = "sleep"; });
  refused({"--between", "--safetensors"}, [](DispatchOptions& o) {
    o.safetensors = "model.safetensors";
    o.between = "rotate";
  });
  refused({"--live-buffers", "14", "15"}, [](DispatchOptions& o) { o.live_buffers = 14; });
  refused({"--safetensors"}, [](DispatchOptions& o) {
    o.safetensors = "model.safetensors";
    o.live_buffers = 100;
  });
  refused({"tpu"}, [](DispatchOptions& o) { o.devices = "tpu:0"; });
  for (const char* link :
       {"pigeon", "thread,pigeon", "", "thread,", ",process", "thread process"}) {
    refused({"--link", link, "thread, process"}, [&](DispatchOptions& o) { o.link = link; });
  }
  refused({"--link", "process twice", "thread, process"},
          [](DispatchOptions& o) { o.link = "process,thread,process"; });
  refused({"missing.safetensors"},
          [](DispatchOptions& o) { o.safetensors = "missing.safetensors"; });
}

TEST(Dispatch, ARoundThatDoesNotEndIsATimeout) {
  DispatchOptions options = small_options();
  options.devices = "null:0?delay_us=300000";
  options.limit = std::chrono::milliseconds(1);
  test::expect_error(ErrorCode::deadline_exceeded, {"0.001 s"}, [&] { run_dispatch(options); });
}

}  // namespace
}  // namespace rankcast::bench
