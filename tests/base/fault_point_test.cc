#include "base/fault_point.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace rankcast::base {
namespace {

bool first_point() { return RANKCAST_FAULT_POINT("test.first"); }
bool second_point() { return RANKCAST_FAULT_POINT("test.second"); }

class FaultPointTest : public testing::Test {
 protected:
  void TearDown() override {
    record_fault_points(false);
    forget_fault_points();
    disarm_all_fault_points();
  }
};

TEST_F(FaultPointTest, SilentUnlessArmed) {
  EXPECT_FALSE(first_point());
  arm_fault_point("test.second");
  EXPECT_FALSE(first_point());
  EXPECT_EQ(armed_fault_points(), 1);
}

TEST_F(FaultPointTest, FailsOnceAfterItsSkips) {
  arm_fault_point("test.first", 2);
  EXPECT_FALSE(first_point());
  EXPECT_FALSE(first_point());
  EXPECT_TRUE(first_point());
  EXPECT_EQ(armed_fault_points(), 0);
  EXPECT_FALSE(first_point());
}

TEST_F(FaultPointTest, SeveralAreArmedApart) {
  arm_fault_point("test.first");
  arm_fault_point("test.second", 1);
  EXPECT_EQ(armed_fault_points(), 2);
  EXPECT_TRUE(first_point());
  EXPECT_FALSE(second_point());
  EXPECT_TRUE(second_point());
}

TEST_F(FaultPointTest, DisarmAll) {
  arm_fault_point("test.first");
  disarm_all_fault_points();
  EXPECT_FALSE(first_point());
  EXPECT_EQ(armed_fault_points(), 0);
}

TEST_F(FaultPointTest, NotesNamesWhileRecording) {
  second_point();
  EXPECT_TRUE(fault_point_names().empty());
  record_fault_points(true);
  second_point();
  first_point();
  second_point();
  record_fault_points(false);
  EXPECT_EQ(fault_point_names(), (std::vector<std::string>{"test.first", "test.second"}));
  forget_fault_points();
  EXPECT_TRUE(fault_point_names().empty());
}

TEST_F(FaultPointTest, FailsOnceOverAllThreads) {
  arm_fault_point("test.first", 500);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) failures += first_point();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 1);
}

}  // namespace
}  // namespace rankcast::base
