// The memory in which host and ranks meet, the directory of segments, and how links are found.
// tests: src/link/kinds.h
#include "link/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/segment.h"
#include "link/kinds.h"
#include "link/link.h"
#include "link/segments.h"

namespace rankcast::link {
namespace {

class ControlLayout
    : public ::testing::TestWithParam<std::tuple<int, std::uint32_t, std::uint64_t>> {};

TEST_P(ControlLayout, EverythingHasItsOwnLines) {
  const auto [world_size, capacity, shared_bytes] = GetParam();
  const std::uint64_t bytes = Control::bytes_needed(world_size, capacity, shared_bytes);
  EXPECT_EQ(bytes % base::kCacheLine, 0u);
  base::Segment memory = base::Segment::reserve(bytes).value();
  const Control control = Control::create(memory.base(), world_size, capacity, shared_bytes);
  EXPECT_EQ(control.world_size(), world_size);
  const auto offset = [&](const void* place) {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(place) - memory.base());
  };
  std::uint64_t end = sizeof(ControlHeader);
  EXPECT_LT(offset(&control.doorbell()), end);
  EXPECT_LT(offset(&control.waiters()), end);
  EXPECT_LT(offset(&control.keeper_word()), end);
  for (int rank = 0; rank < world_size; ++rank) {
    Channel& channel = control.channel(rank);
    EXPECT_GE(offset(&channel), end);
    EXPECT_EQ(offset(&channel) % base::kCacheLine, 0u);
    EXPECT_EQ(channel.state.load(), RankState::starting);
    EXPECT_EQ(channel.timeline.load().bits, 0u);
    end = offset(&channel) + sizeof(Channel);
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const auto slots = control.slots(rank);
    EXPECT_EQ(slots.size(), capacity);
    EXPECT_GE(offset(slots.data()), end);
    EXPECT_EQ(offset(slots.data()) % base::kCacheLine, 0u);
    end = offset(slots.data() + capacity);
  }
  EXPECT_EQ(offset(control.shared()) % base::kCacheLine, 0u);
  EXPECT_GE(offset(control.shared()), end);
  EXPECT_LE(offset(control.shared()) + shared_bytes, bytes);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ControlLayout,
                         ::testing::Combine(::testing::Values(1, 8, 64, 1024),
                                            ::testing::Values(1u, 16u, 2048u),
                                            ::testing::Values(0u, 1u, 100'000u)));

TEST(Channel, WritersHaveLinesOfTheirOwn) {
  Channel channel;
  const auto line = [&](const void* place) {
    return static_cast<std::size_t>(static_cast<const std::byte*>(place) -
                                    reinterpret_cast<const std::byte*>(&channel)) /
           base::kCacheLine;
  };
  EXPECT_NE(line(&channel.tail), line(&channel.head));
  EXPECT_NE(line(&channel.tail), line(&channel.timeline));
  EXPECT_NE(line(&channel.head), line(&channel.timeline))
      << "the host polls one, the rank writes both at other times";
  EXPECT_NE(line(&channel.timeline), line(&channel.state));
}

TEST(Control, SizesThatARankOverwritesAreNotReadAgain) {
  auto memory = base::Segment::reserve(Control::bytes_needed(3, 16, 100)).value();
  const Control control = Control::create(memory.base(), 3, 16, 100);
  auto& header = *reinterpret_cast<ControlHeader*>(memory.base());
  std::byte* const shared = control.shared();
  header.world_size = header.ring_capacity = ~0u;
  header.slots_offset = header.shared_offset = header.total_bytes = ~std::uint64_t{0};
  EXPECT_EQ(control.world_size(), 3);
  EXPECT_EQ(control.slots(2).size(), 16u);
  EXPECT_EQ(control.shared(), shared);
  EXPECT_FALSE(Control::attach(memory.base(), memory.bytes())) << "but nobody comes in any more";
}

TEST(Channel, WhatARankReportedIsChecked) {
  Channel channel;
  EXPECT_TRUE(report_of(channel, 4).ok());
  base::store_seq_cst(channel.state, RankState::ready);
  EXPECT_TRUE(report_of(channel, 4).ok());
  base::store_seq_cst(channel.state, RankState::failed);
  EXPECT_EQ(report_of(channel, 4).code, ErrorCode::internal) << "a failure without an error";
  std::memcpy(channel.report, "no \x07 device", 11);
  channel.error_code = static_cast<std::uint32_t>(ErrorCode::unsupported);
  const base::Status good = report_of(channel, 4);
  EXPECT_EQ(good.code, ErrorCode::unsupported);
  EXPECT_EQ(good.rank, 4);
  EXPECT_EQ(good.text, "rank 4: no ? device");
  channel.error_code = 256 + static_cast<std::uint32_t>(ErrorCode::unsupported);
  std::memset(channel.report, 'x', kReportBytes);
  const base::Status damaged = report_of(channel, 4);
  EXPECT_EQ(damaged.code, ErrorCode::internal);
  EXPECT_EQ(damaged.rank, 4);
  EXPECT_THAT(damaged.text, ::testing::HasSubstr("rank 4 reports error code 269"));
  EXPECT_THAT(damaged.text, ::testing::HasSubstr(std::string(kReportBytes, 'x')));
}

TEST(SegmentDirectory, AnswersWhatWasSet) {
  SegmentDirectory directory;
  std::byte memory[2];
  directory.set(0, {memory, 10});
  directory.set(kMaxSegments - 1, {memory + 1, 20});
  EXPECT_EQ(directory.at(0).base, memory);
  EXPECT_EQ(directory.at(0).bytes, 10u);
  EXPECT_EQ(directory.at(kMaxSegments - 1).base, memory + 1);
  for (const std::uint32_t id : {1u, kMaxSegments, 0xffffffffu}) {
    EXPECT_EQ(directory.at(id).base, nullptr);
    EXPECT_EQ(directory.at(id).bytes, 0u);
  }
}

TEST(LinkKinds, AreFoundByName) {
  ASSERT_FALSE(link_kinds().empty());
  for (const LinkKind& kind : link_kinds()) EXPECT_EQ(find_link(kind.name).value(), &kind);
  EXPECT_EQ(find_link("thread").value()->create, &create_thread_link);
  const auto unknown = find_link("pigeon");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(unknown.error().text, ::testing::HasSubstr("'pigeon'"));
  EXPECT_THAT(unknown.error().text, ::testing::HasSubstr("thread"));
  EXPECT_FALSE(find_link(""));
}

TEST(DefaultSpin, YieldsWhenRanksAndHostOutnumberTheCores) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_EQ(default_spin(1, 1234).spin_ns, 1234);
  EXPECT_TRUE(default_spin(cores, 0).yield);
  if (cores > 1) {
    EXPECT_FALSE(default_spin(cores - 1, 0).yield);
  }
}

}  // namespace
}  // namespace rankcast::link
