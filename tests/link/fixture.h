// A link of one kind and the ranks of link/ranks.h on it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "link/link.h"
#include "link/ranks.h"

namespace rankcast::link {

class LinkTest : public ::testing::Test {
 protected:
  /// What each rank is told at its start.
  using Hello = std::function<std::string(int rank)>;

  /// `rank_program` is what process ranks run: the program of rank.cc.
  LinkTest(std::string kind, std::string rank_program)
      : kind_(std::move(kind)), rank_program_(std::move(rank_program)) {}
  ~LinkTest() override { base::disarm_all_fault_points(); }

  /// Null after a skip or a failure.
  std::unique_ptr<Link> create(int world_size, std::uint32_t ring_capacity = 16) {
    LinkOptions options;
    options.world_size = world_size;
    options.ring_capacity = ring_capacity;
    options.shared_bytes = Area::bytes_needed(world_size);
    options.spin = default_spin(world_size, 50'000);
    options.rank_program = rank_program_;
    auto link = find_link(kind_).value()->create(options);
    if (link) return std::move(*link);
    if (link.error().code != ErrorCode::unsupported) ADD_FAILURE() << link.error().text;
    reason_ = link.error().text;
    return nullptr;
  }

  /// `hello` for one rank, all is good with the others.
  static Hello with(std::string_view hello, int bad) {
    return [hello = std::string(hello), bad](int rank) {
      return rank == bad ? hello : std::string(kGood);
    };
  }

  base::Status start(const Hello& hello, base::Deadline deadline) {
    return link_->start(
        {[hello](RankPort& port) { test_rank_main(hello(port.rank()), port); }, hello}, deadline);
  }

  /// Creates and starts; the test ends here where the kind is not available.
  void open(int world_size, std::uint32_t ring_capacity = 16) {
    link_ = create(world_size, ring_capacity);
    if (link_ == nullptr) return;
    const base::Status status = start(with(kGood, -1), hang_limit());
    ASSERT_TRUE(status.ok()) << status.text;
  }

  void close() {
    tell_to_stop(*link_);
    EXPECT_EQ(link_->stop(hang_limit()), std::vector<int>{});
    link_.reset();
  }

  /// Bytes of a segment as the rank finds it, by its run `run`; 0 if it does not reach it.
  std::uint64_t found(int rank, std::uint64_t run, std::uint32_t id) {
    send(*link_, rank, {.kind = Message::probe, .run = run, .value = id});
    // The rank may ask for it, and what it asks the host hears in take_lost.
    EXPECT_TRUE(eventually([&] {
      EXPECT_TRUE(link_->take_lost().empty());
      return link_->timeline(rank).reached(base::TimelineValue::make(run, 1));
    }));
    return of(rank).found;
  }

  Area& area() { return Area::at(link_->shared()); }
  Area::OfRank& of(int rank) { return area().of(rank); }
  std::vector<std::uint64_t> seen(int rank) {
    const auto& values = of(rank).seen;
    const auto count = static_cast<std::ptrdiff_t>(base::load_seq_cst(of(rank).count));
    return {values.begin(), values.begin() + count};
  }

  const std::string kind_;
  const std::string rank_program_;
  std::string reason_;
  std::unique_ptr<Link> link_;
};

#define SKIP_WITHOUT_LINK(link) \
  if ((link) == nullptr) GTEST_SKIP() << kind_ << ": " << reason_

}  // namespace rankcast::link
