// Ranks behind a real link, and the host's half by hand: a test writes records, frames and side
// blocks, also damaged ones.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/stream_store.h"
#include "frame/encode.h"
#include "frame/shared_area.h"
#include "link/link.h"
#include "rank/ranks.h"
#include "tensor/layout.h"

namespace rankcast::rank {

/// What a lane told of a run.
struct LaneResult {
  frame::LaneReport report;
  std::string text;
  std::vector<frame::Outcome> outcomes;  // by task number
};

class ExecutorRig {
 public:
  static constexpr std::uint32_t kRunRecords = 4;
  static constexpr std::uint32_t kOutcomes = 64;

  explicit ExecutorRig(const std::string& devices = "cpu:0-1") {
    environment_ = std::make_shared<RankEnvironment>();
    environment_->plans = plan_ranks(devices).value();
    for (RankPlan& plan : environment_->plans) plan.options.run_records = kRunRecords;
    world_size_ = static_cast<int>(environment_->plans.size());
    link::LinkOptions options;
    options.world_size = world_size_;
    options.shared_bytes = frame::SharedArea::bytes(world_size_, kRunRecords);
    options.spin = link::default_spin(world_size_, 50'000);
    link_ = link::find_link("thread").value()->create(options).value();
    area().create();
    outcomes_ = add_block(kOutcomes);
  }
  ~ExecutorRig() {
    if (!started_) return;
    for (int rank = 0; rank < world_size_; ++rank) {
      frame::Record stop;
      stop.kind = frame::RecordKind::stop;
      stop.lane = static_cast<std::uint32_t>(rank);
      send(rank, stop);
    }
    EXPECT_TRUE(link_->stop(base::Deadline::after(60'000'000'000)).empty());
  }
  ExecutorRig(const ExecutorRig&) = delete;
  ExecutorRig& operator=(const ExecutorRig&) = delete;

  KernelRegistry& kernels() { return environment_->kernels; }
  std::uint32_t add_kernel(std::string_view name, KernelFunction function) {
    EXPECT_TRUE(kernels().add_function(name, std::move(function)).ok());
    return kernels().find(name).value();
  }

  base::Status start() {
    started_ = true;
    return link_->start(
        {[environment = environment_](link::RankPort& port) { rank_main(*environment, port); }, {}},
        base::Deadline::after(60'000'000'000));
  }

  /// Memory that the ranks reach.
  frame::BlockRef add_block(std::uint32_t bytes) {
    return {0, link_->add_segment(std::max(bytes, 1u), -1, link::Access::all_write).value(), bytes};
  }
  std::byte* address(const frame::BlockRef& block) {
    return link_->segment(block.segment) + block.offset;
  }

  frame::BlockRef write(const frame::FrameDraft& draft,
                        std::span<const frame::LayoutRecord> layouts, int rank) {
    const frame::BlockRef block = add_block(frame::frame_bytes(draft, layouts.size()).value());
    frame::write_frame(address(block), draft, layouts, rank, world_size_,
                       base::StoreKind::ordinary);
    return block;
  }
  frame::BlockRef write(const frame::SideDraft& draft) {
    const frame::BlockRef block = add_block(frame::side_bytes(draft).value());
    frame::write_side(address(block), draft);
    return block;
  }

  /// The record of a new run of `tasks` tasks on one rank.
  frame::Record record_of(int rank, const frame::BlockRef& frame, std::uint32_t tasks) {
    frame::Record record;
    record.run = ++last_run_;
    record.frame = frame;
    record.run_record = static_cast<std::uint32_t>(record.run % kRunRecords);
    record.lane = static_cast<std::uint32_t>(rank);
    record.tasks = tasks;
    return record;
  }

  /// Publishes the record and waits for its end.
  LaneResult run(int rank, const frame::Record& record) {
    frame::RunRecord* const run = area().run_record(record.run_record);
    run->run = record.run;
    run->tasks = kOutcomes;
    run->outcomes = outcomes_;
    run->lanes_left.arm(record.run, 1);
    base::store_seq_cst(run->cancel, 0u);
    std::memset(address(outcomes_), 0, kOutcomes);
    if (damage_run) damage_run(*run);
    send(rank, record);
    wait_for(rank, base::TimelineValue::make(record.run, record.tasks));
    LaneResult result;
    result.report = frame::lane_reports(run)[rank];
    if (result.report.error_code != 0) result.text = result.report.error_text;
    for (std::uint32_t i = 0; i < kOutcomes; ++i) {
      result.outcomes.push_back(static_cast<frame::Outcome>(address(outcomes_)[i]));
    }
    return result;
  }

  /// Publishes it as it is.
  void send(int rank, const frame::Record& record) {
    link_->ring(rank).write(std::bit_cast<link::RecordBytes>(record));
    link_->ring(rank).publish();
    link_->control().doorbell().ring_asleep(base::RankSet::of(rank));
  }
  /// Until the lane's timeline is there.
  void wait_for(int rank, base::TimelineValue value) {
    wait_until([&]() noexcept { return link_->timeline(rank).reached(value); });
  }
  template <class Ready>
  void wait_until(Ready ready) {
    EXPECT_EQ(link_->control().waiters().wait(ready, link_->spin(),
                                              base::Deadline::after(60'000'000'000)),
              base::WaitResult::ready);
  }

  link::Link& link() { return *link_; }
  frame::SharedArea area() const { return {link_->shared(), world_size_, kRunRecords}; }
  /// What is done to the run record before the next runs are published.
  std::function<void(frame::RunRecord&)> damage_run;
  int world_size() const { return world_size_; }

 private:
  std::shared_ptr<RankEnvironment> environment_;
  std::unique_ptr<link::Link> link_;
  frame::BlockRef outcomes_;
  std::uint64_t last_run_ = 0;
  int world_size_ = 0;
  bool started_ = false;
};

}  // namespace rankcast::rank
