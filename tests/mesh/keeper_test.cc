// The housekeeping thread: asleep until asked, asked again while something is left.
#include "mesh/keeper.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/fault_point.h"
#include "mesh/support.h"

namespace rankcast::mesh {
namespace {

using test::eventually;

class KeeperTest : public ::testing::Test {
 protected:
  void TearDown() override { base::disarm_all_fault_points(); }

  base::KeeperWord word_;
  base::KeeperSignal signal_{word_, base::EventFd::create().value()};
};

TEST_F(KeeperTest, WorksWhenItIsTold) {
  std::atomic<int> calls{0};
  auto keeper = Keeper::start(signal_, [&] {
    calls.fetch_add(1);
    return false;
  });
  ASSERT_TRUE(keeper);
  EXPECT_EQ(calls.load(), 0) << "nobody has asked";
  for (int i = 1; i <= 20; ++i) {
    signal_.notify();
    ASSERT_TRUE(eventually([&] { return calls.load() >= i; }));
  }
  keeper->reset();
  const int at_end = calls.load();
  signal_.notify();
  EXPECT_EQ(calls.load(), at_end) << "it is gone";
}

TEST_F(KeeperTest, AsksToBeToldWhileSomethingIsLeft) {
  std::atomic<bool> left{true};
  std::atomic<int> calls{0};
  auto keeper = Keeper::start(signal_, [&] {
    calls.fetch_add(1);
    return left.load();
  });
  ASSERT_TRUE(keeper);
  EXPECT_FALSE(signal_.wanted());
  signal_.notify();
  ASSERT_TRUE(eventually([&] { return signal_.wanted() && calls.load() == 2; }))
      << "it looks once more after it has asked";
  // A rank that retires sees the wish.
  left.store(false);
  EXPECT_TRUE(signal_.notify_if(false));
  ASSERT_TRUE(eventually([&] { return calls.load() == 3; }));
  ASSERT_TRUE(eventually([&] { return !signal_.wanted(); }));
  EXPECT_FALSE(signal_.notify_if(false));
}

TEST_F(KeeperTest, StopsWhateverIsLeft) {
  for (int round = 0; round < 50; ++round) {
    auto keeper = Keeper::start(signal_, [] { return true; });
    ASSERT_TRUE(keeper);
    if (round % 2 == 0) signal_.notify();
    keeper->reset();
  }
}

TEST_F(KeeperTest, LooksAgainWhenItsWatchSaysSo) {
  std::atomic<int> looks{0};
  std::atomic<int> calls{0};
  auto keeper = Keeper::start(
      signal_,
      [&] {
        calls.fetch_add(1);
        return false;
      },
      -1, {},
      [&] {
        return looks.fetch_add(1) < 5 ? base::Deadline::after(1'000'000) : base::Deadline::never();
      });
  ASSERT_TRUE(keeper);
  ASSERT_TRUE(eventually([&] { return looks.load() == 6; }));
  EXPECT_EQ(calls.load(), 0) << "nobody has asked it to work";
  signal_.notify();
  ASSERT_TRUE(eventually([&] { return looks.load() == 7 && calls.load() == 1; }))
      << "it looks before it sleeps again";
}

TEST_F(KeeperTest, TellsWhenThereIsNoThread) {
  base::arm_fault_point("mesh.start_keeper");
  const auto refused = Keeper::start(signal_, [] { return false; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(refused.error().text.find("keeper"), std::string::npos);
}

}  // namespace
}  // namespace rankcast::mesh
