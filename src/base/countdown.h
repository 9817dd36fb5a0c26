// Which lane of a run finishes last: a hint for whom to wake, never the truth (PROTOCOL P4).
//
//   63                    20 19              0
//  +------------------------+-----------------+
//  |       run number       |    lanes left   |
//  +------------------------+-----------------+
//
// A lane counts down after it has stored its timeline. By then the host may have seen all
// timelines, finished the run and armed the word for another: the run number makes the late count
// fall on nothing. Whoever finishes a run on the host wakes the other waiters itself. A rank that
// dies before it counts leaves the word too high; the keeper wakes everybody then.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/atomic.h"
#include "base/native_atomics.h"
#include "base/timeline.h"

namespace rankcast::base {

/// In memory that host and ranks share; all zero bytes are its initial state.
template <class Atomics = NativeAtomics>
class BasicCountdown {
 public:
  BasicCountdown() noexcept = default;
  BasicCountdown(const BasicCountdown&) = delete;
  BasicCountdown& operator=(const BasicCountdown&) = delete;

  /// Host, before the run is published and after the last run of this word has retired on every
  /// lane.
  void arm(std::uint64_t run, std::uint32_t lanes) noexcept {
    store_seq_cst(word_, TimelineValue::make(run, lanes).bits);
  }

  /// Lane, after its timeline is stored. True if it was the last one of that run.
  bool count_down(std::uint64_t run) noexcept {
    std::uint64_t seen = load_seq_cst(word_);
    while (TimelineValue{seen}.run() == run && TimelineValue{seen}.tasks() != 0) {
      if (compare_exchange_seq_cst(word_, seen, seen - 1)) return TimelineValue{seen}.tasks() == 1;
    }
    return false;
  }

 private:
  // Written by: the host (arm), lanes (count_down). Read by: lanes. Ordered by: seq_cst.
  typename Atomics::Word64 word_{};
};

using Countdown = BasicCountdown<>;
static_assert(sizeof(Countdown) == 8 && std::is_standard_layout_v<Countdown>);

}  // namespace rankcast::base
