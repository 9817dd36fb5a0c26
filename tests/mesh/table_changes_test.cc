// What is kept of the changes that a rank has yet to be told.
#include "mesh/table_changes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace rankcast::mesh {
namespace {

/// What a rank's table holds after these changes: slot -> generation.
std::map<std::uint32_t, std::uint32_t> applied(std::span<const frame::TableChange> changes) {
  std::map<std::uint32_t, std::uint32_t> table;
  for (const frame::TableChange& change : changes) table[change.slot] = change.generation;
  return table;
}

frame::TableChange change_of(std::uint32_t slot, std::uint32_t generation) {
  return {.slot = slot, .generation = generation};
}

TEST(MeshTableChanges, AFewAreKeptAsTheyCame) {
  TableChanges changes;
  EXPECT_TRUE(changes.empty());
  for (std::uint32_t i = 0; i < 10; ++i) changes.add(change_of(i % 2, i));
  ASSERT_EQ(changes.span().size(), 10u);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(changes.span()[i].generation, i);
  changes.clear();
  EXPECT_TRUE(changes.empty());
}

TEST(MeshTableChanges, OneSlotThatChangesForEverTakesNoMoreRoom) {
  TableChanges changes;
  for (std::uint32_t i = 0; i < 1'000'000; ++i) {
    changes.add(change_of(7, i));
    ASSERT_LE(changes.span().size(), TableChanges::kFew);
  }
  EXPECT_EQ(applied(changes.span()), (std::map<std::uint32_t, std::uint32_t>{{7, 999'999}}));
}

TEST(MeshTableChanges, ARankEndsWithTheSameTable) {
  std::mt19937 random(1);
  const auto below = [&](std::uint32_t limit) {
    return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(random);
  };
  TableChanges changes;
  std::vector<frame::TableChange> all;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    const std::uint32_t slot = below(i < 100'000 ? 10 : 20'000);
    const frame::TableChange change = change_of(slot, below(3) == 0 ? 0 : i);
    changes.add(change);
    all.push_back(change);
  }
  EXPECT_EQ(applied(changes.span()), applied(all));
  EXPECT_LE(changes.span().size(), 40'000u);
}

TEST(MeshTableChanges, AsManySlotsAsChangesLoseNone) {
  TableChanges changes;
  for (std::uint32_t i = 0; i < 50'000; ++i) changes.add(change_of(i, 1));
  EXPECT_EQ(applied(changes.span()).size(), 50'000u);
  EXPECT_EQ(changes.span().size(), 50'000u);
}

}  // namespace
}  // namespace rankcast::mesh
