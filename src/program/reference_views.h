// Views of references and temporaries: what ArgumentRef::slice and its like and Orchestrator::temp
// make, kept for one submit and compared with those of the submit before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "frame/records.h"
#include "rankcast/program.h"
#include "tensor/view.h"

namespace rankcast::program {

/// The numbers of views and temporaries begin here; below are those of a submit's arguments.
inline constexpr std::uint32_t kFirstView = 0x80000000u;

/// The views of references and the temporaries that a submit makes, numbered in the order in which
/// they are made. A reference to one points to an entry in here, as others point to the entry of an
/// argument.
///
/// One thread at a time. Allocates only when a submit makes more views than any before; entries
/// stay where they are.
class ReferenceViews {
 public:
  struct Entry {
    detail::ArgumentEntry entry;  // as of a device tensor; its number is kFirstView plus its index
    detail::Layout layout;
    std::uint64_t offset_bytes = 0;         // from where the argument begins
    std::uint32_t argument = frame::kNone;  // of the submit, that it is a view of, or kTemporary
    std::uint32_t shard = 0;                // of the argument, or number of the temporary
    detail::Shard temporary;  // of a temporary itself: its number as slot, its rank, generation 0
    bool differs = false;     // from the one of this number in the submit before

    /// Of a temporary, and of views of it.
    bool is_temporary() const noexcept { return argument == detail::kTemporary; }
  };

  /// Forgets the views, but to compare the next ones with.
  void begin_submit() noexcept {
    count_ = 0;
    any_differs_ = false;
  }

  /// Adds a view of shard `shard` of `source`, which may be a view itself.
  const detail::ArgumentEntry& add(const detail::ArgumentEntry& source, std::uint32_t shard,
                                   const tensor::View& view);

  /// Adds temporary number `number` of the run.
  const detail::ArgumentEntry& add_temporary(std::uint32_t number, int rank,
                                             const detail::Layout& layout);

  /// The view or temporary of that number; null for the number of an argument, or of no view.
  const Entry* find(std::uint32_t number) const noexcept {
    const std::size_t index = number - kFirstView;
    return number >= kFirstView && index < count_ ? entries_[index].get() : nullptr;
  }

  /// Whether one of the arguments is one that differs from the one of its number in the submit
  /// before.
  bool differ(std::span<const detail::TaskArgument> arguments) const noexcept {
    return any_differs_ && any_of_these_differs(arguments);
  }

 private:
  Entry& next();
  const detail::ArgumentEntry& add(Entry& entry, std::uint32_t argument, std::uint32_t shard,
                                   std::uint64_t offset_bytes, const detail::Layout& layout);
  bool any_of_these_differs(std::span<const detail::TaskArgument> arguments) const noexcept;

  std::vector<std::unique_ptr<Entry>> entries_;  // from count_ on: of earlier submits
  std::size_t count_ = 0;
  bool any_differs_ = false;
};

}  // namespace rankcast::program
