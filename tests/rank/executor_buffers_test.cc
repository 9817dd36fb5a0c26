// A rank's own table of its buffers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/event_fd.h"
#include "base/generation_table.h"
#include "base/segment.h"
#include "link/control.h"
#include "link/rank_port.h"
#include "rank/buffers.h"

namespace rankcast::rank {
namespace {

/// Imports everything at an address of its own, and counts.
class CountingDevice final : public device::Device {
 public:
  std::string description() const override { return "counts"; }
  DLDevice dl_device() const override { return {kDLCPU, 0}; }
  bool computes() const override { return false; }
  base::Result<void*> import_segment(void* base, std::uint64_t /*bytes*/) override {
    ++imports;
    if (refuses) return base::unexpected_failure(ErrorCode::out_of_memory, "the device is full");
    return static_cast<std::byte*>(base) + kShift;
  }
  void launch(const device::Launch&, device::Signal&) noexcept override {}
  void copy(const device::Copy&, device::Signal&) noexcept override {}

  static constexpr std::ptrdiff_t kShift = 1 << 20;
  int imports = 0;
  bool refuses = false;
};

class TwoSegments final : public link::SegmentSource {
 public:
  std::byte* segment(std::uint32_t id, std::uint64_t* bytes) noexcept override {
    *bytes = id < 2 ? 1024 : 0;
    return id < 2 ? memory_[id].data() : nullptr;
  }

 private:
  std::array<std::array<std::byte, 1024>, 2> memory_{};
};

class BuffersTest : public ::testing::Test {
 protected:
  BuffersTest()
      : memory_(base::Segment::reserve(link::Control::bytes_needed(1, 16, 0)).value()),
        control_(link::Control::create(memory_.base(), 1, 16, 0)),
        keeper_(control_.keeper_word(), base::EventFd::create().value()),
        port_(control_, 0, base::SpinPolicy::none(), keeper_, segments_) {}

  base::Status apply(const frame::TableChange& change) {
    return buffers_.apply(change, port_, device_, &users_);
  }
  std::byte* imported(std::uint32_t id) {
    std::uint64_t bytes = 0;
    return segments_.segment(id, &bytes) + CountingDevice::kShift;
  }

  base::Segment memory_;
  link::Control control_;
  base::KeeperSignal keeper_;
  TwoSegments segments_;
  link::RankPort port_;
  CountingDevice device_;
  Buffers buffers_;
  std::uint32_t users_ = 0;  // of the entry changed last, as it was
};

TEST_F(BuffersTest, NobodyHasASlotAtFirst) {
  for (const std::uint32_t slot : {0u, 7u, frame::kNone}) {
    EXPECT_EQ(buffers_.at(slot).generation, 0u);
    EXPECT_EQ(buffers_.at(slot).address, nullptr);
  }
}

TEST_F(BuffersTest, AnswersWithTheDevicesAddress) {
  ASSERT_TRUE(apply({256, 100, 3, 5, 1, 0}).ok());
  EXPECT_EQ(buffers_.at(3).address, imported(1) + 256);
  EXPECT_EQ(buffers_.at(3).bytes, 100u);
  EXPECT_EQ(buffers_.at(3).generation, 5u);
  EXPECT_EQ(buffers_.at(2).generation, 0u);
}

TEST_F(BuffersTest, TheLastChangeOfASlotHolds) {
  ASSERT_TRUE(apply({0, 100, 3, 1, 0, 0}).ok());
  ASSERT_TRUE(apply({512, 200, 3, 3, 1, 0}).ok());
  EXPECT_EQ(buffers_.at(3).address, imported(1) + 512);
  EXPECT_EQ(buffers_.at(3).generation, 3u);
  ASSERT_TRUE(apply({0, 0, 3, 0, 0, 0}).ok());
  EXPECT_EQ(buffers_.at(3).generation, 0u);
  EXPECT_EQ(buffers_.at(3).address, nullptr);
  ASSERT_TRUE(apply({0, 0, 900, 0, 0, 0}).ok()) << "freed before this rank ever heard of it";
}

TEST_F(BuffersTest, AChangeTellsWhoWasResolvedThroughTheEntry) {
  ASSERT_TRUE(apply({0, 100, 3, 1, 0, 0}).ok());
  EXPECT_EQ(users_, 0u);
  buffers_.entries()[3].users = 0b101;
  ASSERT_TRUE(apply({0, 100, 2, 1, 0, 0}).ok());
  EXPECT_EQ(users_, 0u) << "another slot";
  EXPECT_FALSE(apply({0, 100, 3, 3, 9, 0}).ok());
  EXPECT_EQ(users_, 0b101u) << "also when the change fails";
  ASSERT_TRUE(apply({0, 0, 3, 0, 0, 0}).ok());
  EXPECT_EQ(users_, 0b101u);
  ASSERT_TRUE(apply({0, 100, 3, 3, 0, 0}).ok());
  EXPECT_EQ(users_, 0u) << "told once";
}

TEST_F(BuffersTest, EachSegmentIsImportedOnce) {
  for (std::uint32_t slot = 0; slot < 10; ++slot)
    ASSERT_TRUE(apply({64 * slot, 64, slot, 1, slot % 2, 0}).ok());
  EXPECT_EQ(device_.imports, 2);
}

TEST_F(BuffersTest, RefusesPlacesThatAreNone) {
  const auto refused = [&](const frame::TableChange& change, const char* word) {
    const base::Status status = apply(change);
    EXPECT_EQ(status.code, ErrorCode::internal);
    EXPECT_THAT(status.text, ::testing::HasSubstr(word));
    EXPECT_EQ(buffers_.at(3).generation, 0u);
  };
  refused({0, 100, 3, 1, 2, 0}, "segment 2");
  refused({1000, 100, 3, 1, 0, 0}, "100 bytes at 1000 of segment 0, which has 1024");
  refused({2000, 0, 3, 1, 0, 0}, "2000");
  refused({~std::uint64_t{0}, 100, 3, 1, 0, 0}, "100 bytes");
  refused({0, ~std::uint64_t{0}, 3, 1, 0, 0}, "at 0");
  refused({0, 100, base::GenerationTable<int>::kMaxRows, 1, 0, 0}, "slot 16777216");
  ASSERT_TRUE(apply({924, 100, 3, 1, 0, 0}).ok()) << "the last byte is inside";
}

TEST_F(BuffersTest, TellsWhatTheDeviceSays) {
  device_.refuses = true;
  const base::Status status = apply({0, 100, 3, 1, 0, 0});
  EXPECT_EQ(status.code, ErrorCode::out_of_memory);
  EXPECT_EQ(status.text, "the device is full");
  device_.refuses = false;
  EXPECT_TRUE(apply({0, 100, 3, 1, 0, 0}).ok()) << "a refusal is not remembered";
}

}  // namespace
}  // namespace rankcast::rank
