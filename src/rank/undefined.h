// What of this rank's own memory is undefined, and what of other ranks' a copy may not read.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "frame/shared_area.h"
#include "frame/undefined_list.h"

namespace rankcast::rank {

/// Used by the rank's thread alone; the shared list is what other lanes see of it. Costs one
/// compare while nothing is undefined.
class Undefined {
 public:
  Undefined(const frame::SharedArea& area, int rank) noexcept
      : area_(area), shared_(area.undefined(rank)) {}

  bool empty() const noexcept { return regions_.empty(); }

  /// `run` should have written the region and did not. Before the lane's timeline passes the task.
  void add(const frame::Region& region, std::uint64_t run);

  /// All elements of the region were written.
  void remove(const frame::Region& region);

  /// These bytes of a segment belong to another buffer now, or to none.
  void forget(std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes);

  /// The last run that should have written a byte of the region; nothing when all is defined.
  std::optional<std::uint64_t> find(const frame::Region& region) const noexcept {
    return frame::find_undefined(regions_, region);
  }
  /// The same of another rank, once its timeline has passed what may have written the region.
  std::optional<std::uint64_t> find_of(int rank, const frame::Region& region) const noexcept {
    return frame::find_undefined(area_.undefined(rank), region);
  }

 private:
  void tell() noexcept { frame::write_undefined(shared_, regions_); }

  frame::SharedArea area_;
  frame::UndefinedList& shared_;
  std::vector<frame::UndefinedRegion> regions_;
};

}  // namespace rankcast::rank
