#include "base/rank_set.h"

#include <gtest/gtest.h>

#include <vector>

namespace rankcast::base {
namespace {

std::vector<int> members(const RankSet& set) {
  std::vector<int> found;
  set.for_each([&](int rank) { found.push_back(rank); });
  return found;
}

TEST(RankSetTest, EmptyByDefault) {
  const RankSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.count(), 0);
  EXPECT_EQ(set.words_used(), 0u);
  EXPECT_FALSE(set.contains(0));
  EXPECT_FALSE(set.contains(kMaxRanks - 1));
}

TEST(RankSetTest, InsertEraseContains) {
  RankSet set;
  for (const int rank : {1023, 0, 64, 63, 64}) set.insert(rank);
  EXPECT_EQ(members(set), (std::vector<int>{0, 63, 64, 1023}));
  EXPECT_EQ(set.count(), 4);
  EXPECT_TRUE(set.contains(63));
  set.erase(63);
  set.erase(5);
  EXPECT_FALSE(set.contains(63));
  EXPECT_EQ(members(set), (std::vector<int>{0, 64, 1023}));
}

TEST(RankSetTest, UsesOnlyTheWordsItNeeds) {
  EXPECT_EQ(RankSet::first(64).words_used(), 1u);
  EXPECT_EQ(RankSet::first(65).words_used(), 2u);
  EXPECT_EQ(RankSet::first(64).word(0), ~std::uint64_t{0});
  EXPECT_EQ(RankSet::of(1023).words_used(), kRankWords);
}

TEST(RankSetTest, EqualityIsOfMembers) {
  RankSet set = RankSet::of(700);
  set.erase(700);
  EXPECT_EQ(set, RankSet());
  EXPECT_TRUE(set.empty());
  set.insert(3);
  EXPECT_EQ(set, RankSet::of(3));
  EXPECT_FALSE(set == RankSet::of(4));
}

TEST(RankSetTest, UnionAndClear) {
  RankSet set = RankSet::first(2);
  set.insert_all(RankSet::of(200));
  EXPECT_EQ(members(set), (std::vector<int>{0, 1, 200}));
  set.insert_all(RankSet());
  EXPECT_EQ(set.count(), 3);
  set.clear();
  EXPECT_EQ(set, RankSet());
  EXPECT_EQ(set.words_used(), 0u);
}

TEST(RankSetTest, IsUsableAtCompileTime) {
  static_assert(RankSet::first(3).count() == 3);
  static_assert(!RankSet::of(7).contains(6));
}

}  // namespace
}  // namespace rankcast::base
