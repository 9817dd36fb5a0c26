// The area that host and ranks share for the records of a mesh: what lies where in it.
//
//   RunRecord, LaneReport x world_size | ... x run records
//   FlightEntry x kFlights, rank 0 | ... x world_size
//   UndefinedList, rank 0 | ... x world_size
//
// The host makes it and numbers the run records; ranks find theirs by the same arithmetic, whatever
// address they have it at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "frame/flight_recorder.h"
#include "frame/records.h"
#include "frame/undefined_list.h"

namespace rankcast::frame {

/// A plain value that borrows the memory, which is aligned to a cache line.
class SharedArea {
 public:
  static constexpr std::uint64_t bytes(int world_size, std::uint32_t run_records) noexcept {
    return undefined_offset(world_size, run_records, world_size);
  }

  SharedArea(std::byte* base, int world_size, std::uint32_t run_records) noexcept
      : base_(base), world_size_(world_size), run_records_(run_records) {}

  /// The host, before any rank looks: all records as new. Lists of what is undefined are empty as
  /// they are, in memory that is zeroed.
  void create() const noexcept {
    for (std::uint32_t i = 0; i < run_records_; ++i) {
      auto* const record = new (base_ + i * run_record_bytes(world_size_)) RunRecord();
      for (int rank = 0; rank < world_size_; ++rank) new (lane_reports(record) + rank) LaneReport();
    }
    for (int rank = 0; rank < world_size_; ++rank) {
      for (std::size_t i = 0; i < kFlights; ++i) new (flights(rank) + i) FlightEntry();
    }
  }

  std::uint32_t run_records() const noexcept { return run_records_; }

  /// The run record of that index, which is below run_records().
  RunRecord* run_record(std::uint32_t index) const noexcept {
    return std::launder(
        reinterpret_cast<RunRecord*>(base_ + index * run_record_bytes(world_size_)));
  }

  /// The flight recorder of a rank: kFlights entries.
  FlightEntry* flights(int rank) const noexcept {
    return std::launder(
        reinterpret_cast<FlightEntry*>(base_ + flights_offset(world_size_, run_records_, rank)));
  }

  /// What of a rank's memory is undefined.
  UndefinedList& undefined(int rank) const noexcept {
    return *std::launder(reinterpret_cast<UndefinedList*>(
        base_ + undefined_offset(world_size_, run_records_, rank)));
  }

 private:
  static constexpr std::uint64_t undefined_offset(int world_size, std::uint32_t run_records,
                                                  int rank) noexcept {
    return flights_offset(world_size, run_records, world_size) +
           static_cast<std::uint64_t>(rank) * sizeof(UndefinedList);
  }
  static constexpr std::uint64_t flights_offset(int world_size, std::uint32_t run_records,
                                                int rank) noexcept {
    return run_records * run_record_bytes(world_size) +
           static_cast<std::uint64_t>(rank) * kFlights * sizeof(FlightEntry);
  }

  std::byte* base_;  // borrowed from the link, which outlives host and rank alike
  int world_size_;
  std::uint32_t run_records_;
};

}  // namespace rankcast::frame
