// How the members of a group decide together whether they go on (PROTOCOL P7).
//
//   31         22 21        20 19      18 17        16 15            0
//  +-------------+-------------+-----------+-----------+---------------+
//  |      0      |  decision   |     0     | lacks bad |   arrivals    |
//  +-------------+-------------+-----------+-----------+---------------+
//
// A member arrives once it has nothing left to wait for, and says whether it can go on. The last to
// arrive decides. So the decision knows what only the members know: whether what each reads is
// defined, and whether each has made its preparation. Cancel and the keeper may decide before that,
// to skip. A decision stands. Members that wait for it look at this word; who decides wakes them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/atomic.h"
#include "base/native_atomics.h"

namespace rankcast::base {

enum class GroupDecision : std::uint8_t {
  undecided = 0,
  skip = 1,         // nobody goes on
  go = 2,           // all do
  go_prepared = 3,  // all do, and some member lacks its preparation: all make it anew
};

/// What one member says.
struct GroupBallot {
  bool good = true;    // it can go on
  bool lacks = false;  // its preparation
};

/// In memory that host and ranks share; all zero bytes are its initial state. Any thread; each
/// member arrives once.
template <class Atomics = NativeAtomics>
class BasicGroupVote {
 public:
  /// Of `members`, at most 65,535. Returns the decision, if this was the last arrival or there is
  /// one.
  GroupDecision arrive(GroupBallot ballot, std::uint32_t members) noexcept {
    std::uint32_t seen = load_seq_cst(word_);
    for (;;) {
      if (decision_of(seen) != GroupDecision::undecided) return decision_of(seen);
      std::uint32_t next = (seen + 1) | (ballot.good ? 0 : kBad) | (ballot.lacks ? kLacks : 0);
      if ((next & kArrivals) == members) {
        const GroupDecision decision = (next & kBad) != 0     ? GroupDecision::skip
                                       : (next & kLacks) != 0 ? GroupDecision::go_prepared
                                                              : GroupDecision::go;
        next |= static_cast<std::uint32_t>(decision) << kDecisionShift;
      }
      if (compare_exchange_seq_cst(word_, seen, next)) return decision_of(next);
    }
  }

  /// Cancel, the keeper: to skip, unless it is decided. Returns the decision that stands.
  GroupDecision decide_to_skip() noexcept {
    std::uint32_t seen = load_seq_cst(word_);
    const std::uint32_t skip = static_cast<std::uint32_t>(GroupDecision::skip) << kDecisionShift;
    while (decision_of(seen) == GroupDecision::undecided) {
      if (compare_exchange_seq_cst(word_, seen, seen | skip)) return GroupDecision::skip;
    }
    return decision_of(seen);
  }

  GroupDecision decision() const noexcept { return decision_of(load_seq_cst(word_)); }

  /// Host, before the run is published.
  void clear() noexcept { store_seq_cst(word_, 0u); }

 private:
  static constexpr std::uint32_t kArrivals = 0xffffu;
  static constexpr std::uint32_t kBad = 1u << 16;
  static constexpr std::uint32_t kLacks = 1u << 17;
  static constexpr int kDecisionShift = 20;

  static GroupDecision decision_of(std::uint32_t word) noexcept {
    return static_cast<GroupDecision>(word >> kDecisionShift & 3);
  }

  // Written by: members, cancel, the keeper; the host (clear). Read by: members. Ordered by:
  // seq_cst, then Doorbell::ring_waiting.
  typename Atomics::Word32 word_{};
};

using GroupVote = BasicGroupVote<>;
static_assert(sizeof(GroupVote) == 4 && std::is_standard_layout_v<GroupVote>);

}  // namespace rankcast::base
