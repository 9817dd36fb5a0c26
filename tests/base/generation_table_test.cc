#include "base/generation_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace rankcast::base {
namespace {

struct Row {
  int value = 0;
  std::shared_ptr<int> owned;
};
using Table = GenerationTable<Row>;

TEST(GenerationTableTest, AllocateMakesALiveKeyWithAnOddGeneration) {
  Table table;
  const TableKey key = table.allocate().value();
  EXPECT_EQ(key, (TableKey{0, 1}));
  EXPECT_TRUE(table.live(key));
  EXPECT_EQ(table.live_count(), 1u);
  table.row(key.slot).value = 7;
  ASSERT_NE(table.find(key), nullptr);
  EXPECT_EQ(table.find(key)->value, 7);
}

TEST(GenerationTableTest, NothingElseIsLive) {
  Table table;
  EXPECT_FALSE(table.live(TableKey{}));
  const TableKey key = table.allocate().value();
  EXPECT_FALSE(table.live(TableKey{}));
  EXPECT_FALSE(table.live(TableKey{key.slot, key.generation + 1}));
  EXPECT_FALSE(table.live(TableKey{key.slot, key.generation + 2}));
  EXPECT_FALSE(table.live(TableKey{key.slot + 1, key.generation}));
  EXPECT_FALSE(table.live(TableKey{key.slot + 1, 0}));
  EXPECT_FALSE(table.live(TableKey{Table::kRowsPerChunk, 0}));
  EXPECT_FALSE(table.live(TableKey{Table::kMaxRows - 1, 1}));
  EXPECT_FALSE(table.live(TableKey{Table::kMaxRows, 1}));
  EXPECT_FALSE(table.live(TableKey{0xffffffffu, 1}));
  EXPECT_EQ(table.find(TableKey{key.slot, 3}), nullptr);
}

TEST(GenerationTableTest, ReleaseMakesEveryCopyStale) {
  Table table;
  const TableKey key = table.allocate().value();
  table.row(key.slot) = Row{5, std::make_shared<int>(1)};
  const std::weak_ptr<int> owned = table.row(key.slot).owned;
  EXPECT_TRUE(table.release(key));
  EXPECT_TRUE(owned.expired());
  EXPECT_FALSE(table.live(key));
  EXPECT_FALSE(table.live(TableKey{key.slot, key.generation + 1}));
  EXPECT_FALSE(table.release(key));
  EXPECT_EQ(table.live_count(), 0u);

  const TableKey next = table.allocate().value();
  EXPECT_EQ(next.slot, key.slot);
  EXPECT_NE(next.generation, key.generation);
  EXPECT_FALSE(table.live(key));
  EXPECT_FALSE(table.release(key));
  EXPECT_TRUE(table.live(next));
  EXPECT_EQ(table.row(next.slot).value, 0);
}

TEST(GenerationTableTest, ReusesTheSlotReleasedLast) {
  Table table;
  std::vector<TableKey> keys;
  keys.reserve(5);
  for (int i = 0; i < 5; ++i) keys.push_back(table.allocate().value());
  table.release(keys[1]);
  table.release(keys[3]);
  EXPECT_EQ(table.allocate().value().slot, 3u);
  EXPECT_EQ(table.allocate().value().slot, 1u);
  EXPECT_EQ(table.allocate().value().slot, 5u);
}

TEST(GenerationTableTest, RowsNeverMove) {
  Table table;
  const TableKey first = table.allocate().value();
  const Row* at = table.find(first);
  for (std::uint32_t i = 0; i < 3 * Table::kRowsPerChunk; ++i) {
    ASSERT_EQ(table.allocate().value().slot, i + 1);
  }
  EXPECT_EQ(table.find(first), at);
  EXPECT_TRUE(table.live(TableKey{3 * Table::kRowsPerChunk, 1}));
}

TEST(GenerationTableTest, FullTableIsNamedAndChangesNothing) {
  Table table(2);
  const TableKey first = table.allocate().value();
  ASSERT_TRUE(table.allocate().has_value());
  const auto refused = table.allocate();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(refused.error().text.find("2 rows, 2 of them live"), std::string::npos)
      << refused.error().text;
  EXPECT_EQ(table.live_count(), 2u);
  table.release(first);
  EXPECT_TRUE(table.allocate().has_value());
}

TEST(GenerationTableTest, NoMemoryForAChunk) {
  Table table;
  arm_fault_point("base.table_chunk");
  const auto refused = table.allocate();
  EXPECT_EQ(armed_fault_points(), 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(table.allocate().value(), (TableKey{0, 1}));
}

TEST(GenerationTableTest, SlotWhoseGenerationWouldWrapIsRetired) {
  GenerationTable<Row, 0xfffffffcu> table;
  const TableKey last_but_one = table.allocate().value();
  EXPECT_EQ(last_but_one.generation, 0xfffffffdu);
  EXPECT_TRUE(table.release(last_but_one));
  const TableKey last = table.allocate().value();
  EXPECT_EQ(last, (TableKey{0, 0xffffffffu}));
  EXPECT_TRUE(table.live(last));
  EXPECT_TRUE(table.release(last));
  EXPECT_EQ(table.retired_count(), 1u);
  EXPECT_FALSE(table.live(last));
  EXPECT_FALSE(table.live(TableKey{0, 0}));
  EXPECT_FALSE(table.live(TableKey{0, 1}));
  EXPECT_EQ(table.allocate().value().slot, 1u);
}

TEST(GenerationTableTest, ForEachVisitsLiveRowsBySlot) {
  Table table;
  std::vector<TableKey> keys;
  for (int i = 0; i < 4; ++i) {
    keys.push_back(table.allocate().value());
    table.row(keys.back().slot).value = i;
  }
  table.release(keys[2]);
  std::vector<int> values;
  table.for_each([&](TableKey key, Row& row) {
    EXPECT_TRUE(table.live(key));
    values.push_back(row.value);
  });
  EXPECT_EQ(values, (std::vector<int>{0, 1, 3}));
}

// Against a plain list of keys that are live and keys that were.
TEST(GenerationTableTest, RandomUseAgainstAModel) {
  Table table(300);
  std::mt19937 random(20261130);
  std::vector<TableKey> live;
  std::vector<TableKey> stale;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 && live.size() < 300) {
      live.push_back(table.allocate().value());
    } else if (!live.empty()) {
      const std::size_t index = random() % live.size();
      ASSERT_TRUE(table.release(live[index]));
      stale.push_back(live[index]);
      live[index] = live.back();
      live.pop_back();
    }
    ASSERT_TRUE(live.empty() || table.live(live[random() % live.size()]));
    ASSERT_FALSE(!stale.empty() && table.live(stale[random() % stale.size()]));
  }
  ASSERT_EQ(table.live_count(), live.size());
  for (const TableKey key : stale) ASSERT_FALSE(table.live(key));
}

// P1 on the machine itself: one thread submits what it checked without the lock, another frees and
// allocates anew. No submit may be published with a handle that is dead under the mutex.
TEST(GenerationTableTest, CheckedWithoutTheLockPublishedUnderIt) {
  constexpr int kSubmits = 20'000;
  Table table;
  Mutex mutex;
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<std::uint64_t> handle{0};  // what a user holds: slot and generation
  std::atomic<bool> stop{false};
  const auto pack = [](TableKey key) { return std::uint64_t{key.slot} << 32 | key.generation; };
  handle = pack(table.allocate().value());

  std::thread freer([&] {
    while (!stop) {
      const MutexLock lock(mutex);
      const std::uint64_t packed = handle;
      const TableKey old{static_cast<std::uint32_t>(packed >> 32),
                         static_cast<std::uint32_t>(packed)};
      table.release(old);
      store_release(epoch, load_relaxed(epoch) + 1);
      handle = pack(table.allocate().value());
    }
  });
  int published = 0;
  int refused = 0;
  int dead = 0;
  for (int i = 0; i < kSubmits; ++i) {
    const std::uint64_t packed = handle;
    const TableKey key{static_cast<std::uint32_t>(packed >> 32),
                       static_cast<std::uint32_t>(packed)};
    const std::uint64_t checked_at = load_acquire(epoch);
    if (!table.live(key)) {
      ++refused;
      continue;
    }
    const MutexLock lock(mutex);
    if (load_relaxed(epoch) != checked_at && !table.live(key)) {
      ++refused;
      continue;
    }
    dead += !table.live(key);
    ++published;
  }
  stop = true;
  freer.join();
  EXPECT_EQ(dead, 0);
  EXPECT_EQ(published + refused, kSubmits);
}

}  // namespace
}  // namespace rankcast::base
