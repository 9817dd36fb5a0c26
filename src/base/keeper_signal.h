// How the keeper is called off its `poll` (PROTOCOL P11), at no system call for a run that does not
// need it.
//
// Requester (free, a blocked submit, a dropped Run):  queue the request; if
// (signal.want_unless(reached)) notify() Rank:                                               store
// its timeline (seq_cst); notify_if(record's flag) Keeper:  poll; drain(); clear(); work off the
// queue; if requests remain, want_unless(reached) before it polls again
//
// No request is lost: the requester stores `wanted`, then reads the timelines; the rank stores its
// timeline, then reads `wanted`. All four are sequentially consistent, so one of the two sees the
// other. The keeper clears before it looks at the queue, so that a request queued after that look
// finds the word clear and sets it again.
#pragma once

#include <cstdint>
#include <utility>

#include "base/atomic.h"
#include "base/native_atomics.h"

namespace rankcast::base {

/// The shared half: one a mesh, in memory that host and ranks share; all zero bytes are its initial
/// state.
template <class Atomics = NativeAtomics>
struct alignas(kCacheLine) BasicKeeperWord {
  // Written by: requesters and the keeper. Read by: ranks after each completion.
  // Ordered by: seq_cst, set before the requester reads the timelines, read after the rank's
  // timeline store.
  typename Atomics::Word32 wanted{};
};

using KeeperWord = BasicKeeperWord<>;
static_assert(sizeof(KeeperWord) == kCacheLine);

/// One process's half: the word, and this process's own descriptor of the keeper's eventfd. Any
/// thread.
template <class Atomics = NativeAtomics>
class BasicKeeperSignal {
 public:
  /// `word` is borrowed: the mesh's shared memory outlives keeper, ranks and requesters.
  BasicKeeperSignal(BasicKeeperWord<Atomics>& word, typename Atomics::Event event) noexcept
      : word_(&word), event_(std::move(event)) {}

  /// Requester: asks for the keeper at the next retirement of any rank. The caller then reads the
  /// timelines (seq_cst) and, if what it wants has come already, calls notify() itself.
  void want() noexcept { store_seq_cst(word_->wanted, 1u); }

  /// want(), then `reached()` (seq_cst loads of the timelines). True: it has come already, no rank
  /// may ever tell the keeper, so the caller must notify() or, being the keeper, look again.
  template <class Reached>
  bool want_unless(Reached reached) noexcept {
    want();
    return reached();
  }

  /// Keeper: takes the wish back, before it looks at the queue.
  void clear() noexcept { exchange_seq_cst(word_->wanted, 0u); }

  bool wanted() const noexcept { return load_seq_cst(word_->wanted) != 0; }

  /// Rank, after its timeline is stored: writes the eventfd if the keeper is wanted or the record
  /// says so
  /// (`notify_keeper`). True if it did. One load if not.
  bool notify_if(bool record_says_so) noexcept {
    if (!wanted() && !record_says_so) return false;
    event_.notify();
    return true;
  }

  /// Wakes the keeper whatever the word says. One system call.
  void notify() noexcept { event_.notify(); }

  /// Keeper: takes all notifications, so that `poll` sleeps again.
  void drain() noexcept { event_.drain(); }

  /// For the keeper's `poll`; owned by this object.
  int fd() const noexcept { return event_.fd(); }

 private:
  BasicKeeperWord<Atomics>*
      word_;  // borrowed from the mesh's shared memory, which outlives every user of this
  typename Atomics::Event event_;
};

using KeeperSignal = BasicKeeperSignal<>;

}  // namespace rankcast::base
