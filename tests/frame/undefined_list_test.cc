#include "frame/undefined_list.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tensor/layout.h"

namespace rankcast::frame {
namespace {

Region region(std::uint32_t segment, std::uint64_t offset, std::int64_t bytes) {
  return {.segment = segment,
          .offset = offset,
          .layout = tensor::contiguous_layout(DType::u8, {bytes})};
}

TEST(UndefinedList, FindsWhatSharesAByteAndTheLastRun) {
  const auto list = std::make_unique<UndefinedList>();
  EXPECT_FALSE(find_undefined(*list, region(0, 0, 100)));
  const std::vector<UndefinedRegion> regions{{region(1, 10, 10), 7}, {region(1, 15, 10), 5}};
  write_undefined(*list, regions);
  EXPECT_EQ(find_undefined(*list, region(1, 19, 1)), 7u);
  EXPECT_EQ(find_undefined(*list, region(1, 20, 1)), 5u);
  EXPECT_FALSE(find_undefined(*list, region(1, 25, 100)));
  EXPECT_FALSE(find_undefined(*list, region(1, 0, 10)));
  EXPECT_FALSE(find_undefined(*list, region(2, 15, 1))) << "another segment";
  EXPECT_EQ(read_undefined(*list).size(), 2u);
  write_undefined(*list, {});
  EXPECT_FALSE(find_undefined(*list, region(1, 19, 1)));
  EXPECT_TRUE(read_undefined(*list).empty());
}

TEST(UndefinedList, OneThatIsTooLongLeavesNothingDefined) {
  const auto list = std::make_unique<UndefinedList>();
  std::vector<UndefinedRegion> regions;
  for (std::uint32_t i = 0; i <= kUndefinedRegions; ++i)
    regions.push_back({region(1, std::uint64_t{100} * i, 1), 3});
  write_undefined(*list, regions);
  EXPECT_EQ(find_undefined(*list, region(9, 50, 1)), 0u) << "some run";
  EXPECT_EQ(find_undefined(*list, region(1, 100, 1)), 3u);
  write_undefined(*list, read_undefined(*list));
  EXPECT_EQ(find_undefined(*list, region(9, 50, 1)), 0u) << "it stays too long";
  regions.pop_back();
  write_undefined(*list, regions);
  EXPECT_FALSE(find_undefined(*list, region(9, 50, 1)));
}

TEST(UndefinedList, WhatIsWrittenIsForgotten) {
  std::vector<UndefinedRegion> regions{{region(1, 10, 10), 1}, {region(1, 30, 10), 2}};
  EXPECT_FALSE(forget_written(regions, region(2, 0, 100)));
  EXPECT_FALSE(forget_written(regions, region(1, 20, 10)));
  EXPECT_TRUE(forget_written(regions, region(1, 5, 20)));
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].run, 2u);
  EXPECT_EQ(find_undefined(regions, region(1, 39, 1)), 2u);
  EXPECT_FALSE(find_undefined(regions, region(1, 10, 10)));
  EXPECT_TRUE(forget_written(regions, region(1, 33, 4)));
  EXPECT_EQ(regions.size(), 2u);
  for (std::uint64_t at = 29; at < 41; ++at) {
    const bool undefined = at >= 30 && at < 40 && !(at >= 33 && at < 37);
    EXPECT_EQ(find_undefined(regions, region(1, at, 1)).has_value(), undefined) << at;
  }
  EXPECT_TRUE(forget_written(regions, region(1, 30, 3)));
  EXPECT_TRUE(forget_written(regions, region(1, 35, 100)));
  EXPECT_TRUE(regions.empty());
}

TEST(UndefinedList, OfRegionsWithGapsOnlyTheWholeIsForgotten) {
  Region columns = region(1, 0, 8);
  columns.layout.strides[0] = 4;
  columns.layout.extent_bytes = 29;
  std::vector<UndefinedRegion> regions{{columns, 1}};
  EXPECT_FALSE(forget_written(regions, region(1, 0, 20)));
  EXPECT_TRUE(forget_written(regions, columns));
  EXPECT_TRUE(regions.empty());
}

// A writer that died while it wrote: whoever takes over ends it.
TEST(UndefinedList, AnotherWriterEndsWhatOneBegan) {
  const auto list = std::make_unique<UndefinedList>();
  list->version.store(13);
  const std::vector<UndefinedRegion> regions{{region(1, 0, 4), 2}};
  write_undefined(*list, regions);
  EXPECT_EQ(list->version.load() % 2, 0u);
  EXPECT_EQ(find_undefined(*list, region(1, 3, 1)), 2u);
}

TEST(UndefinedList, ALookIsNeverHalfOfTwo) {
  const auto list = std::make_unique<UndefinedList>();
  // Of each pair both regions have the same run.
  const auto pair = [](std::uint64_t run) {
    return std::vector<UndefinedRegion>{{region(1, 0, 8), run}, {region(1, 100 * run, 8), run}};
  };
  write_undefined(*list, pair(1));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t run = 1; !stop.load(); run = run % 1000 + 1) {
      write_undefined(*list, pair(run));
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    const auto run = find_undefined(*list, region(1, 4, 1));
    ASSERT_TRUE(run.has_value() && *run >= 1 && *run <= 1000);
  }
  stop.store(true);
  writer.join();
}

}  // namespace
}  // namespace rankcast::frame
