#include "memory/heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace rankcast::memory {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Grants what is asked for and notes it.
struct Source {
  std::vector<std::uint64_t> granted;

  RankHeap::AddSegment callback() {
    return [this](std::uint64_t bytes) -> base::Result<std::uint64_t> {
      granted.push_back(bytes);
      return bytes;
    };
  }
};

Block taken(RankHeap& heap, std::uint64_t bytes) {
  const base::Result<Block> block = heap.allocate(bytes);
  EXPECT_TRUE(block) << (block ? "" : block.error().text);
  return block.value_or(Block{});
}

TEST(RankHeapTest, HoldsNothingUntilAsked) {
  Source source;
  const RankHeap heap(source.callback());
  EXPECT_TRUE(source.granted.empty());
  EXPECT_EQ(heap.reserved_bytes(), 0U);
  EXPECT_TRUE(heap.valid());
}

TEST(RankHeapTest, RoundsUpAndAligns) {
  Source source;
  RankHeap heap(source.callback());
  const std::pair<std::uint64_t, std::uint64_t> sizes[] = {
      {0, 256}, {1, 256}, {256, 256}, {257, 512}, {1000, 1024}};
  std::uint64_t live = 0;
  for (const auto& [asked, got] : sizes) {
    const Block block = taken(heap, asked);
    EXPECT_EQ(block.bytes, got) << asked;
    EXPECT_EQ(block.offset % kBlockAlignment, 0U);
    live += got;
    EXPECT_EQ(heap.live_bytes(), live);
    EXPECT_TRUE(heap.valid());
  }
  EXPECT_EQ(heap.reserved_bytes(), 64 * kMiB);
  EXPECT_EQ(heap.free_bytes(), 64 * kMiB - live);
  EXPECT_EQ(heap.live_blocks(), 5U);
}

TEST(RankHeapTest, TakesTheSmallestBlockThatFits) {
  Source source;
  RankHeap heap(source.callback());
  const std::uint64_t sizes[] = {4096, 1024, 2048, 8192};
  std::vector<Block> holes;
  for (const std::uint64_t size : sizes) {
    holes.push_back(taken(heap, size));
    taken(heap, 256);  // keeps the holes apart
  }
  for (const Block& hole : holes) heap.release(hole);
  EXPECT_EQ(taken(heap, 2000).offset, holes[2].offset);
  EXPECT_EQ(taken(heap, 1024).offset, holes[1].offset);
  EXPECT_EQ(taken(heap, 5000).offset, holes[3].offset);
  EXPECT_EQ(taken(heap, 300).offset, holes[3].offset + 5120);  // what 5000 left over
  EXPECT_EQ(taken(heap, 4000).offset, holes[0].offset);
  EXPECT_TRUE(heap.valid());
}

TEST(RankHeapTest, JoinsNeighboursInEveryOrderOfRelease) {
  std::vector<int> order{0, 1, 2, 3};
  do {
    Source source;
    RankHeap heap(source.callback());
    std::vector<Block> blocks(4);
    for (Block& block : blocks) block = taken(heap, 16 * kMiB);
    EXPECT_EQ(heap.free_blocks(), 0U);
    for (const int i : order) {
      heap.release(blocks[static_cast<std::size_t>(i)]);
      ASSERT_TRUE(heap.valid());
    }
    EXPECT_EQ(heap.free_blocks(), 1U);
    EXPECT_EQ(heap.free_bytes(), heap.reserved_bytes());
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(RankHeapTest, GrowsByWhatIsNeededAndNeverJoinsSegments) {
  Source source;
  RankHeap heap(source.callback());
  const Block first = taken(heap, 64 * kMiB);
  const Block second = taken(heap, 1);
  const Block big = taken(heap, 65 * kMiB + 1);
  EXPECT_THAT(source.granted, testing::ElementsAre(64 * kMiB, 64 * kMiB, 66 * kMiB));
  EXPECT_EQ(first.segment, 0U);
  EXPECT_EQ(second.segment, 1U);
  EXPECT_EQ(big.segment, 2U);
  EXPECT_EQ(heap.segment_count(), 3U);
  for (const Block& block : {first, second, big}) heap.release(block);
  EXPECT_TRUE(heap.valid());
  EXPECT_EQ(heap.free_blocks(), 3U);
  EXPECT_EQ(heap.live_bytes(), 0U);
}

TEST(RankHeapTest, TakesASegmentLargerThanAskedFor) {
  RankHeap heap([](std::uint64_t bytes) -> base::Result<std::uint64_t> { return bytes + 1000; });
  taken(heap, 1);
  EXPECT_EQ(heap.reserved_bytes(), 64 * kMiB + 768);
  EXPECT_TRUE(heap.valid());
}

TEST(RankHeapTest, FailureOfGrowthChangesNothing) {
  int asked = 0;
  RankHeap heap([&asked](std::uint64_t bytes) -> base::Result<std::uint64_t> {
    if (++asked > 1)
      return base::unexpected_failure(ErrorCode::out_of_memory, "no {} bytes", bytes);
    return bytes;
  });
  const Block block = taken(heap, 1024);
  const base::Result<Block> refused = heap.allocate(64 * kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(refused.error().text, "no 67108864 bytes");
  EXPECT_EQ(heap.live_blocks(), 1U);
  EXPECT_EQ(heap.reserved_bytes(), 64 * kMiB);
  EXPECT_TRUE(heap.valid());
  heap.release(block);
  EXPECT_EQ(heap.free_blocks(), 1U);
  EXPECT_TRUE(heap.valid());
}

TEST(RankHeapTest, SizesBeyondAnyHeapAreRefusedWithoutAsking) {
  Source source;
  RankHeap heap(source.callback());
  for (const std::uint64_t bytes : {UINT64_MAX, UINT64_MAX / 2 + 1}) {
    const base::Result<Block> refused = heap.allocate(bytes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
    EXPECT_THAT(refused.error().text, testing::HasSubstr(std::to_string(bytes)));
  }
  EXPECT_TRUE(source.granted.empty());
}

TEST(RankHeapDeathTest, BlocksThatAreNotLiveAreOurBug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Source source;
  RankHeap heap(source.callback());
  const Block block = taken(heap, 1024);
  Block longer = block;
  longer.bytes += kBlockAlignment;
  EXPECT_DEATH(heap.release(longer), "check failed");
  Block unknown = block;
  unknown.node = 1000;
  EXPECT_DEATH(heap.release(unknown), "check failed");
  heap.release(block);
  EXPECT_DEATH(heap.release(block), "check failed");
}

// What counts is that this ends (a heap that is linear in its blocks would take hours), and that
// all joins again.
void fill_and_empty(bool equal_sizes, bool shuffled) {
  constexpr std::size_t kBlocks = 1'000'000;
  std::mt19937_64 random(20);
  Source source;
  RankHeap heap(source.callback());
  std::vector<Block> blocks(kBlocks);
  for (Block& block : blocks) block = *heap.allocate(equal_sizes ? 64 : 1 + random() % 4096);
  ASSERT_EQ(heap.live_blocks(), kBlocks);
  if (shuffled) std::shuffle(blocks.begin(), blocks.end(), random);
  for (const Block& block : blocks) heap.release(block);
  EXPECT_EQ(heap.free_blocks(), heap.segment_count());
  EXPECT_EQ(heap.live_bytes(), 0U);
  EXPECT_TRUE(heap.valid());
}

TEST(RankHeapTest, MillionBlocksInOrder) { fill_and_empty(true, false); }
TEST(RankHeapTest, MillionBlocksShuffled) { fill_and_empty(true, true); }
TEST(RankHeapTest, MillionBlocksOfAllSizesShuffled) { fill_and_empty(false, true); }

// Blocks that are live, by place: none may overlap another.
class Occupied {
 public:
  bool add(const Block& block) {
    const auto [at, fresh] = blocks_.emplace(std::pair(block.segment, block.offset), block.bytes);
    if (!fresh) return false;
    const auto after = std::next(at);
    if (after != blocks_.end() && after->first.first == block.segment &&
        block.offset + block.bytes > after->first.second) {
      return false;
    }
    if (at == blocks_.begin()) return true;
    const auto before = std::prev(at);
    return before->first.first != block.segment ||
           before->first.second + before->second <= block.offset;
  }
  void remove(const Block& block) { blocks_.erase({block.segment, block.offset}); }

 private:
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> blocks_;
};

RC_GTEST_PROP(RankHeapProperty, BlocksNeverOverlapAndAllJoinAgain, ()) {
  constexpr std::uint64_t kSmallSegment = 64 << 10;
  Source source;
  RankHeap heap(source.callback(), kSmallSegment);
  Occupied occupied;
  std::vector<std::pair<Block, std::uint64_t>> live;
  // Positive: allocate so many bytes. Not: release one of those that are live.
  const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::oneOf(
      rc::gen::inRange(-1000, 1), rc::gen::inRange(1, 2000), rc::gen::inRange(1, 100'000)));
  for (const int step : steps) {
    if (step > 0) {
      const auto bytes = static_cast<std::uint64_t>(step);
      const Block block = *heap.allocate(bytes);
      RC_ASSERT(block.bytes >= bytes);
      RC_ASSERT(block.bytes < bytes + kBlockAlignment);
      RC_ASSERT(block.offset % kBlockAlignment == 0U);
      RC_ASSERT(block.segment < source.granted.size());
      RC_ASSERT(block.offset + block.bytes <= source.granted[block.segment]);
      RC_ASSERT(occupied.add(block));
      live.emplace_back(block, bytes);
    } else if (!live.empty()) {
      const std::size_t at = static_cast<std::size_t>(-step) % live.size();
      occupied.remove(live[at].first);
      heap.release(live[at].first);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
    std::uint64_t live_bytes = 0;
    for (const auto& [block, bytes] : live) live_bytes += block.bytes;
    RC_ASSERT(heap.live_bytes() == live_bytes);
    RC_ASSERT(heap.live_blocks() == live.size());
    RC_ASSERT(heap.live_bytes() + heap.free_bytes() == heap.reserved_bytes());
    RC_ASSERT(heap.valid());
  }
  for (const auto& [block, bytes] : live) heap.release(block);
  RC_ASSERT(heap.valid());
  RC_ASSERT(heap.free_blocks() == heap.segment_count());
  RC_ASSERT(heap.free_bytes() == heap.reserved_bytes());
}

}  // namespace
}  // namespace rankcast::memory
