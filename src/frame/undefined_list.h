// What of a rank's memory is undefined: a task that should have written it failed or did not start.
//
// One list a lane, in the area that host and ranks share, so that a copy on another lane can look
// before it reads. Failure crosses runs only by these lists (PROTOCOL P4). While nothing is
// undefined a reader looks at one word.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/atomic.h"
#include "frame/records.h"

namespace rankcast::frame {

/// Elements in a segment.
struct Region {
  std::uint32_t segment = 0;
  std::uint32_t reserved = 0;
  std::uint64_t offset = 0;  // of the first element
  LayoutRecord layout;
};

/// Elements that a run should have written.
struct UndefinedRegion {
  Region region;
  std::uint64_t run = 0;
};

static_assert(sizeof(UndefinedRegion) == 168 && std::is_trivially_copyable_v<UndefinedRegion>);

inline constexpr std::uint32_t kUndefinedRegions = 512;  // that other lanes are told one by one

/// The shared list. All zero bytes: empty.
///
/// A seqlock: `version` is odd while the list is written; each store of the rest is a release, so a
/// reader that has seen any new word finds the version changed.
struct alignas(base::kCacheLine) UndefinedList {
  static constexpr std::size_t kRegionWords = sizeof(UndefinedRegion) / 8;
  template <class T>
  using Word = std::atomic<T>;

  // All. Written by: the lane's rank; the host once that is gone. Read by: other ranks.
  // Ordered by: release and acquire (pairs: undefined-list); `count` also by the lane's timeline.
  Word<std::uint64_t> version{0};
  Word<std::uint32_t> count{0};  // of regions; more than there is room for: all is undefined
  alignas(base::kCacheLine) Word<std::uint64_t> words[kUndefinedRegions][kRegionWords] = {};
};

/// Puts `regions` in place of what the list says. One writer at a time.
void write_undefined(UndefinedList& list, std::span<const UndefinedRegion> regions) noexcept;

/// What the list says, as far as it can be: of a rank that is gone.
std::vector<UndefinedRegion> read_undefined(const UndefinedList& list);

/// The last run that should have written a byte of `region`; nothing when all of it is defined. 0:
/// some run, which is not known because the list is longer than it has room for. After the lane's
/// timeline has passed what may have written the region.
std::optional<std::uint64_t> find_undefined(const UndefinedList& list,
                                            const Region& region) noexcept;

/// The same among `regions`.
std::optional<std::uint64_t> find_undefined(std::span<const UndefinedRegion> regions,
                                            const Region& region) noexcept;

/// Takes out of `regions` what was written: those whose every byte `written` covers, and of those
/// without gaps the bytes of a `written` without gaps (a large upload comes in pieces). True if
/// anything changed.
bool forget_written(std::vector<UndefinedRegion>& regions, const Region& written);

}  // namespace rankcast::frame
