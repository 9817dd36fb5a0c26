#include "base/stream_store.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/atomic.h"

namespace rankcast::base {
namespace {

struct alignas(kCacheLine) Frame {
  std::array<unsigned char, 512> bytes{};
};

class StoreFrameTest : public testing::TestWithParam<StoreKind> {};

TEST_P(StoreFrameTest, CopiesEveryLengthAndNothingMore) {
  std::array<unsigned char, 512> source{};
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<unsigned char>(i * 7 + 1);
  }
  for (const std::size_t misalignment : {0u, 1u, 8u}) {
    for (std::size_t length = 0; length <= 300; ++length) {
      Frame frame;
      frame.bytes.fill(0xee);
      store_frame(frame.bytes.data(), source.data() + misalignment, length, GetParam());
      store_fence(GetParam());
      ASSERT_EQ(std::memcmp(frame.bytes.data(), source.data() + misalignment, length), 0)
          << "length " << length;
      for (std::size_t i = length; i < frame.bytes.size(); ++i) {
        ASSERT_EQ(frame.bytes[i], 0xee) << "length " << length << ", byte " << i;
      }
    }
  }
}

// Frames of changing contents cross to another thread behind a tail.
TEST_P(StoreFrameTest, IsVisibleBehindTheTail) {
  constexpr std::uint64_t kRounds = 20'000;
  Frame frame;
  std::atomic<std::uint64_t> tail{0};
  std::atomic<std::uint64_t> head{0};
  std::uint64_t wrong = 0;
  std::thread reader([&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      while (load_seq_cst(tail) != round) std::this_thread::yield();
      for (const unsigned char byte : frame.bytes) wrong += byte != (round & 0xff);
      store_seq_cst(head, round);
    }
  });
  std::array<unsigned char, 512> source{};
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    source.fill(static_cast<unsigned char>(round & 0xff));
    store_frame(frame.bytes.data(), source.data(), source.size(), GetParam());
    store_fence(GetParam());
    store_seq_cst(tail, round);
    while (load_seq_cst(head) != round) std::this_thread::yield();
  }
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoreFrameTest,
                         testing::Values(StoreKind::ordinary, StoreKind::streaming),
                         [](const auto& kind) { return std::string(store_kind_name(kind.param)); });

TEST(StreamStoreTest, Names) {
  EXPECT_EQ(store_kind_name(StoreKind::ordinary), "ordinary");
  EXPECT_EQ(store_kind_name(StoreKind::streaming), "streaming");
#if defined(__x86_64__)
  EXPECT_TRUE(has_streaming_stores());
#endif
}

#ifndef NDEBUG
TEST(StreamStoreDeathTest, DestinationMustBeAligned) {
  Frame frame;
  const std::array<unsigned char, 8> source{};
  EXPECT_DEATH(store_frame(frame.bytes.data() + 1, source.data(), 8, StoreKind::streaming),
               "check failed");
}
#endif

}  // namespace
}  // namespace rankcast::base
