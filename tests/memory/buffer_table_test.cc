#include "memory/buffer_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace rankcast::memory {
namespace {

Block block_at(std::uint64_t offset) {
  return Block{.segment = 0, .node = 0, .offset = offset, .bytes = 256};
}

TEST(BufferTableTest, NamesABuffer) {
  BufferTable table;
  const auto key = table.insert(block_at(512), 100);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->generation % 2, 1U);
  EXPECT_TRUE(table.live(*key));
  ASSERT_NE(table.find(*key), nullptr);
  EXPECT_EQ(table.find(*key)->block, block_at(512));
  EXPECT_EQ(table.find(*key)->bytes, 100U);
  EXPECT_EQ(table.live_buffers(), 1U);
  EXPECT_EQ(table.live_bytes(), 100U);
}

TEST(BufferTableTest, SecondRemovalFindsNothing) {
  BufferTable table;
  const base::TableKey key = *table.insert(block_at(0), 100);
  const auto row = table.remove(key);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->block, block_at(0));
  EXPECT_EQ(row->bytes, 100U);
  EXPECT_FALSE(table.live(key));
  EXPECT_EQ(table.find(key), nullptr);
  EXPECT_EQ(table.remove(key), std::nullopt);
  EXPECT_EQ(table.live_buffers(), 0U);
  EXPECT_EQ(table.live_bytes(), 0U);
}

TEST(BufferTableTest, OldNameNeverReachesWhoeverTookItsSlot) {
  BufferTable table;
  const base::TableKey old = *table.insert(block_at(0), 100);
  table.remove(old);
  const base::TableKey fresh = *table.insert(block_at(256), 7);
  ASSERT_EQ(fresh.slot, old.slot);
  EXPECT_FALSE(table.live(old));
  EXPECT_EQ(table.find(old), nullptr);
  EXPECT_EQ(table.remove(old), std::nullopt);
  EXPECT_TRUE(table.live(fresh));
  EXPECT_EQ(table.live_bytes(), 7U);
}

TEST(BufferTableTest, NamesThatWereNeverGivenAreStale) {
  BufferTable table;
  const base::TableKey key = *table.insert(block_at(0), 1);
  for (const base::TableKey other :
       {base::TableKey{}, base::TableKey{.slot = key.slot, .generation = 0},
        base::TableKey{.slot = key.slot, .generation = key.generation + 1},
        base::TableKey{.slot = key.slot, .generation = key.generation + 2},
        base::TableKey{.slot = key.slot + 1, .generation = key.generation},
        base::TableKey{.slot = UINT32_MAX, .generation = UINT32_MAX}}) {
    EXPECT_FALSE(table.live(other)) << other.slot << " " << other.generation;
    EXPECT_EQ(table.remove(other), std::nullopt);
  }
  EXPECT_TRUE(table.live(key));
}

TEST(BufferTableTest, FullTableSaysSoWithItsNumbers) {
  BufferTable table(3);
  std::array<base::TableKey, 3> keys;
  for (base::TableKey& key : keys) key = *table.insert(block_at(0), 10);
  const auto refused = table.insert(block_at(0), 10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_THAT(refused.error().text, testing::HasSubstr("3 rows"));
  EXPECT_EQ(table.live_buffers(), 3U);
  EXPECT_EQ(table.live_bytes(), 30U);
  table.remove(keys[1]);
  EXPECT_TRUE(table.insert(block_at(0), 10));
}

TEST(BufferTableTest, RowsStayWhereTheyAre) {
  BufferTable table;
  const base::TableKey first = *table.insert(block_at(0), 1);
  const BufferRow* row = table.find(first);
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(table.insert(block_at(0), 1));
  EXPECT_EQ(table.find(first), row);
  EXPECT_EQ(table.live_buffers(), 100'001U);
}

RC_GTEST_PROP(BufferTableProperty, BehavesLikeAMapOfNames, ()) {
  const auto table = std::make_unique<BufferTable>(8U);
  std::vector<std::pair<base::TableKey, std::uint64_t>> live;
  std::vector<base::TableKey> dead;
  const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-8, 8));
  std::uint64_t number = 0;
  for (const int step : steps) {
    ++number;
    if (step >= 0) {
      const auto key = table->insert(block_at(number), number);
      RC_ASSERT(key.has_value() == (live.size() < 8));
      if (key) live.emplace_back(*key, number);
    } else if (!live.empty()) {
      const auto at = live.begin() + (-step - 1) % static_cast<std::ptrdiff_t>(live.size());
      RC_ASSERT(table->remove(at->first).has_value());
      dead.push_back(at->first);
      live.erase(at);
    }
    std::uint64_t bytes = 0;
    for (const auto& [key, value] : live) {
      RC_ASSERT(table->live(key));
      RC_ASSERT(table->find(key)->bytes == value);
      bytes += value;
    }
    for (const base::TableKey& key : dead) RC_ASSERT(!table->live(key));
    RC_ASSERT(table->live_bytes() == bytes);
    RC_ASSERT(table->live_buffers() == live.size());
  }
}

}  // namespace
}  // namespace rankcast::memory
