#include "bench/lib/allocation_counter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "bench/lib/machine.h"

namespace rankcast::bench {
namespace {

struct alignas(128) Wide {
  char bytes[128] = {};
};

// Keeps the compiler from leaving the allocation out.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

TEST(AllocationCounter, CountsThisThreadsAllocations) {
  const std::uint64_t before = allocations_of_this_thread();
  const std::vector<int> vector(100);
  keep(vector);
  EXPECT_EQ(allocations_of_this_thread() - before, 1U);
  const auto one = std::make_unique<int>(1);
  keep(one);
  EXPECT_EQ(allocations_of_this_thread() - before, 2U);
}

TEST(AllocationCounter, CountsWideAlignment) {
  if (!this_build().sanitizer.empty()) GTEST_SKIP() << "the sanitizer has no hook for these";
  const std::uint64_t before = allocations_of_this_thread();
  const auto wide = std::make_unique<Wide>();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide.get()) % alignof(Wide), 0U);
  EXPECT_EQ(allocations_of_this_thread() - before, 1U);
}

TEST(AllocationCounter, LeavesOutOtherThreads) {
  std::uint64_t of_the_thread = 0;
  const std::uint64_t before_thread = allocations_of_this_thread();
  std::thread thread([&] {
    const std::vector<int> vector(100);
    keep(vector);
    of_the_thread = allocations_of_this_thread();
  });
  const std::uint64_t started = allocations_of_this_thread();
  thread.join();
  EXPECT_EQ(allocations_of_this_thread(), started);
  EXPECT_GE(started, before_thread);
  EXPECT_GE(of_the_thread, 1U);
}

}  // namespace
}  // namespace rankcast::bench
