#include "rank/undefined.h"

#include <algorithm>

namespace rankcast::rank {

void Undefined::add(const frame::Region& region, std::uint64_t run) {
  frame::forget_written(regions_, region);
  regions_.push_back({region, run});
  tell();
}

void Undefined::remove(const frame::Region& region) {
  if (frame::forget_written(regions_, region)) tell();
}

void Undefined::forget(std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes) {
  const auto gone = std::erase_if(regions_, [&](const frame::UndefinedRegion& one) {
    return one.region.segment == segment && one.region.offset >= offset &&
           one.region.offset < offset + bytes;
  });
  if (gone != 0) tell();
}

}  // namespace rankcast::rank
