#include "frame/shared_area.h"

#include <gtest/gtest.h>

#include <memory>

namespace rankcast::frame {
namespace {

TEST(SharedArea, RecordsLieApartAndInside) {
  for (const int world_size : {1, 3, 64}) {
    for (const std::uint32_t run_records : {1u, 8u}) {
      const std::uint64_t bytes = SharedArea::bytes(world_size, run_records);
      struct alignas(64) Line {
        std::byte bytes[64];
      };
      ASSERT_EQ(bytes % sizeof(Line), 0u);
      const auto lines = std::make_unique<Line[]>(bytes / sizeof(Line));
      auto* const base = reinterpret_cast<std::byte*>(lines.get());
      const SharedArea area(base, world_size, run_records);
      area.create();
      EXPECT_EQ(area.run_records(), run_records);

      std::uint64_t end = 0;
      const auto expect_next = [&](const void* at, std::uint64_t size) {
        EXPECT_EQ(static_cast<const std::byte*>(at) - base, static_cast<std::ptrdiff_t>(end));
        end += size;
      };
      for (std::uint32_t i = 0; i < run_records; ++i) {
        expect_next(area.run_record(i), run_record_bytes(world_size));
        EXPECT_EQ(area.run_record(i)->run, 0u);
        EXPECT_EQ(lane_reports(area.run_record(i))[world_size - 1].error_task, kNone);
      }
      for (int rank = 0; rank < world_size; ++rank) {
        expect_next(area.flights(rank), kFlights * sizeof(FlightEntry));
        EXPECT_TRUE(read_flights(area.flights(rank), kFlights).empty());
      }
      for (int rank = 0; rank < world_size; ++rank) {
        expect_next(&area.undefined(rank), sizeof(UndefinedList));
      }
      EXPECT_EQ(end, bytes);
    }
  }
}

}  // namespace
}  // namespace rankcast::frame
