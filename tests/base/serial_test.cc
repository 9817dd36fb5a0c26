#include "base/serial.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace rankcast::base {
namespace {

TEST(Serial, NoNumberIsGivenTwice) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 1000;
  std::vector<std::vector<std::uint64_t>> given(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&given, i] {
      for (std::size_t n = 0; n < kEach; ++n) given[i].push_back(next_serial());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& numbers : given) all.insert(numbers.begin(), numbers.end());
  EXPECT_EQ(all.size(), kThreads * kEach);
  EXPECT_FALSE(all.contains(0));
}

}  // namespace
}  // namespace rankcast::base
