#include "frame/undefined_list.h"

#include <algorithm>
#include <array>
#include <bit>
#include <thread>

#include "base/clock.h"
#include "tensor/layout.h"
#include "tensor/overlap.h"

namespace rankcast::frame {
namespace {

using Words = std::array<std::uint64_t, UndefinedList::kRegionWords>;

constexpr std::int64_t kPatienceNs = 1'000'000'000;  // for a writer to come to its end

UndefinedRegion read_one(const UndefinedList& list, std::uint32_t index) noexcept {
  Words words;
  for (std::size_t at = 0; at < words.size(); ++at) {
    words[at] = base::load_acquire(list.words[index][at]);  // pairs: undefined-list
  }
  return std::bit_cast<UndefinedRegion>(words);
}

bool touch(const Region& a, const Region& b) noexcept {
  return a.segment == b.segment && tensor::overlap(a.layout, a.offset, b.layout, b.offset);
}

// The bytes from `begin` to before `end`, if there are any, of a region that goes.
void add_bytes(std::vector<UndefinedRegion>& regions, const UndefinedRegion& of,
               std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  const auto bytes = static_cast<std::int64_t>(end - begin);
  regions.push_back({.region = {.segment = of.region.segment,
                                .offset = begin,
                                .layout = tensor::contiguous_layout(DType::u8, {bytes})},
                     .run = of.run});
}

// One look at a list that may be written meanwhile; false when it was.
bool look(const UndefinedList& list, const Region& region,
          std::optional<std::uint64_t>* run) noexcept {
  const std::uint64_t version = base::load_acquire(list.version);  // pairs: undefined-list
  if (version % 2 != 0) return false;
  const std::uint32_t count = base::load_acquire(list.count);  // pairs: undefined-list
  run->reset();
  if (count > kUndefinedRegions) *run = 0;
  for (std::uint32_t i = 0; i < std::min(count, kUndefinedRegions); ++i) {
    const UndefinedRegion one = read_one(list, i);
    // Half of two regions, or a damaged rank's: the version tells the one, and the other is none.
    if (!tensor::is_valid(one.region.layout) || !touch(one.region, region)) continue;
    *run = std::max(run->value_or(0), one.run);
  }
  return base::load_acquire(list.version) == version;  // pairs: undefined-list
}

}  // namespace

void write_undefined(UndefinedList& list, std::span<const UndefinedRegion> regions) noexcept {
  // relaxed: the only writer reads its own last store, or a dead rank's
  const std::uint64_t version = base::load_relaxed(list.version) | 1;
  base::store_release(list.version, version);  // pairs: undefined-list
  const std::size_t told = std::min<std::size_t>(regions.size(), kUndefinedRegions);
  for (std::size_t i = 0; i < told; ++i) {
    const auto words = std::bit_cast<Words>(regions[i]);
    for (std::size_t at = 0; at < words.size(); ++at) {
      base::store_release(list.words[i][at], words[at]);  // pairs: undefined-list
    }
  }
  const std::uint32_t count = regions.size() > kUndefinedRegions
                                  ? kUndefinedRegions + 1
                                  : static_cast<std::uint32_t>(regions.size());
  base::store_release(list.count, count);          // pairs: undefined-list
  base::store_release(list.version, version + 1);  // pairs: undefined-list
}

std::vector<UndefinedRegion> read_undefined(const UndefinedList& list) {
  std::vector<UndefinedRegion> regions;
  const std::uint32_t count = base::load_acquire(list.count);  // pairs: undefined-list
  for (std::uint32_t i = 0; i < std::min(count, kUndefinedRegions); ++i) {
    const UndefinedRegion one = read_one(list, i);
    if (tensor::is_valid(one.region.layout)) regions.push_back(one);
  }
  // A list that was too long stays one.
  if (count > kUndefinedRegions && !regions.empty()) {
    regions.resize(kUndefinedRegions + 1, regions.back());
  }
  return regions;
}

std::optional<std::uint64_t> find_undefined(const UndefinedList& list,
                                            const Region& region) noexcept {
  if (base::load_acquire(list.count) == 0) [[likely]] {  // pairs: undefined-list
    return std::nullopt;
  }
  std::optional<std::uint64_t> run;
  const base::Deadline deadline = base::Deadline::after(kPatienceNs);
  while (!look(list, region, &run)) {
    if (deadline.passed()) return 0;
    std::this_thread::yield();
  }
  return run;
}

std::optional<std::uint64_t> find_undefined(std::span<const UndefinedRegion> regions,
                                            const Region& region) noexcept {
  std::optional<std::uint64_t> run;
  for (const UndefinedRegion& one : regions) {
    if (touch(one.region, region)) run = std::max(run.value_or(0), one.run);
  }
  return run;
}

bool forget_written(std::vector<UndefinedRegion>& regions, const Region& written) {
  bool changed = false;
  for (std::size_t i = regions.size(); i-- > 0;) {
    const UndefinedRegion one = regions[i];
    if (!touch(one.region, written)) continue;
    const bool all =
        tensor::covers(written.layout, written.offset, one.region.layout, one.region.offset);
    if (!all &&
        !(tensor::is_contiguous(one.region.layout) && tensor::is_contiguous(written.layout)))
      continue;
    regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(i));
    changed = true;
    if (all) continue;
    add_bytes(regions, one, one.region.offset, written.offset);
    add_bytes(regions, one, written.offset + written.layout.extent_bytes,
              one.region.offset + one.region.layout.extent_bytes);
  }
  return changed;
}

}  // namespace rankcast::frame
