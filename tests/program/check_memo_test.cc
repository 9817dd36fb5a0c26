#include "program/check_memo.h"

#include <gtest/gtest.h>

namespace rankcast::program {
namespace {

class CheckMemoTest : public ::testing::Test {
 protected:
  std::uint64_t find(std::uint32_t kernel, std::vector<std::uint32_t> signature) {
    return memo_.find({kernel, signature});
  }
  void add(std::uint64_t id, std::uint32_t kernel, std::vector<std::uint32_t> signature) {
    memo_.add({kernel, signature}, id);
  }

  CheckMemo memo_;
};

TEST_F(CheckMemoTest, FindsWhatWasAddedAndNothingElse) {
  EXPECT_EQ(find(1, {8, 16}), 0u);
  add(5, 1, {8, 16});
  add(6, 2, {8, 16});
  add(7, 1, {});
  EXPECT_EQ(find(1, {8, 16}), 5u);
  EXPECT_EQ(find(2, {8, 16}), 6u);
  EXPECT_EQ(find(1, {}), 7u);
  EXPECT_EQ(find(1, {8, 16}), 5u);
  EXPECT_EQ(find(3, {8, 16}), 0u) << "another kernel";
  EXPECT_EQ(find(1, {8}), 0u) << "fewer tensors";
  EXPECT_EQ(find(1, {8, 16, 16}), 0u) << "more tensors";
  EXPECT_EQ(find(1, {16, 8}), 0u) << "another order";
  EXPECT_EQ(find(1, {9, 16}), 0u) << "another tag";
}

TEST_F(CheckMemoTest, ForgetsWhenCleared) {
  add(5, 1, {8});
  memo_.clear();
  EXPECT_EQ(find(1, {8}), 0u);
  add(6, 1, {8});
  EXPECT_EQ(find(1, {8}), 6u);
}

TEST_F(CheckMemoTest, KeepsSoManyAndThenForgetsAll) {
  for (std::uint32_t i = 0; i < CheckMemo::kMax; ++i) add(i + 1, 1, {i});
  for (std::uint32_t i = 0; i < CheckMemo::kMax; ++i) ASSERT_EQ(find(1, {i}), i + 1);
  add(9999, 1, {CheckMemo::kMax});
  EXPECT_EQ(find(1, {CheckMemo::kMax}), 9999u);
  EXPECT_EQ(find(1, {0}), 0u);
}

TEST_F(CheckMemoTest, TakesALongSignature) {
  std::vector<std::uint32_t> signature(2048, 3);
  add(5, 1, signature);
  EXPECT_EQ(find(1, signature), 5u);
  signature.back() = 4;
  EXPECT_EQ(find(1, signature), 0u);
}

}  // namespace
}  // namespace rankcast::program
