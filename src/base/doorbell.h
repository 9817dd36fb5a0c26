// How ranks sleep and how they are woken (PROTOCOL P3). The truth is each rank's 64-bit tail
// (record_ring.h), or whatever word a rank inside a frame waits for; the bell is a hint that
// something moved.
//
// Rank:       heard = listen(); look; prepare_sleep(rank); look again; sleep(rank, heard);
// finish_sleep(rank) Publisher:  store all tails; ring_asleep(ranks) = add to the bell, read
// `asleep`, wake only the bits rung
//
// No wake-up is lost: the rank sets its bit, then looks; the publisher stores, then reads the bits.
// All four are sequentially consistent, so one of the two sees the other. If the publisher sees the
// bit, it has already added to the bell that the rank compares when it goes to sleep, and the
// kernel compares under its own lock.
//
// The same holds, in a mask of its own, for ranks blocked inside a frame (`waiting`): whoever moves
// a word that such a rank may wait for (a timeline, a group decision, an abort word, cancel, a
// device signal) is a publisher: store it with seq_cst, then ring_waiting(ranks). A blocked rank's
// `look` reads its condition and its abort word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/atomic.h"
#include "base/native_atomics.h"
#include "base/rank_set.h"
#include "base/spin.h"

namespace rankcast::base {

/// How a complete wait ended.
enum class WaitResult : std::uint8_t { ready, timed_out };

/// One a mesh, in memory that host and ranks share: plain data, no pointers; all zero bytes are its
/// initial state. Publisher functions: any thread of any process. Rank functions: one thread a
/// rank, each for its own rank.
///
/// The bell wraps after 4,294,967,296 rings: a sleeper misses a change only if exactly that many
/// fall between its listen() and its futex call.
template <class Atomics = NativeAtomics>
class BasicDoorbell {
  using Mask = std::array<typename Atomics::Word64, kRankWords>;

 public:
  BasicDoorbell() noexcept = default;
  BasicDoorbell(const BasicDoorbell&) = delete;
  BasicDoorbell& operator=(const BasicDoorbell&) = delete;

  /// Rank side, step 1: the value to sleep on. Everything looked at afterwards is at least as new
  /// as this value.
  std::uint32_t listen() const noexcept { return load_seq_cst(bell_); }

  /// Step 2, after a look that found nothing: sets the rank's bit. The next look must use seq_cst
  /// loads.
  void prepare_sleep(int rank) noexcept { set_bit(asleep_, rank); }
  /// Step 3, after a second look that found nothing: sleeps while the bell is as `heard`.
  FutexResult sleep(int rank, std::uint32_t heard, Deadline deadline) noexcept {
    return Atomics::wait(bell_, heard, futex_bit(rank), deadline);
  }
  /// Step 4, however the sleep ended and also if it did not begin: the sleeper alone clears its
  /// bit.
  void finish_sleep(int rank) noexcept { clear_bit(asleep_, rank); }

  /// The same for a rank blocked inside a frame; sleep() serves both.
  void prepare_wait(int rank) noexcept { set_bit(waiting_, rank); }
  void finish_wait(int rank) noexcept { clear_bit(waiting_, rank); }

  /// All steps: spins as `spin` says, then sleeps, until `ready()` is true or the deadline passes.
  /// `ready` is called often, must not throw, and must use seq_cst loads. A deadline that passes is
  /// answered by one more look.
  template <class Ready>
  WaitResult wait_asleep(int rank, Ready ready, SpinPolicy spin, Deadline deadline) noexcept {
    return wait_in(asleep_, rank, ready, spin, deadline);
  }
  template <class Ready>
  WaitResult wait_inside_frame(int rank, Ready ready, SpinPolicy spin, Deadline deadline) noexcept {
    return wait_in(waiting_, rank, ready, spin, deadline);
  }

  /// Publisher side, once the tails of all `rung` ranks are stored (seq_cst): wakes those of them
  /// that sleep. Returns the futex wakes made: 0 or 1. Cost without sleepers: one atomic add and a
  /// load for each 64 ranks.
  int ring_asleep(const RankSet& rung) noexcept { return ring_in(asleep_, rung); }

  /// The same for ranks blocked inside a frame, once the word they may wait for is stored
  /// (seq_cst).
  int ring_waiting(const RankSet& rung) noexcept { return ring_in(waiting_, rung); }

  /// The same for whichever ranks are blocked inside a frame, by a publisher that does not know
  /// whom its word concerns, among the first `ranks`. Costs a load for each 64 of them while none
  /// is blocked: one that sets its bit after that looks again and finds the word stored.
  int ring_if_any_waits(int ranks) noexcept {
    std::uint64_t waiting = 0;
    for (std::size_t i = 0; i <= RankSet::word_of(ranks - 1); ++i) {
      waiting |= load_seq_cst(waiting_[i]);
    }
    if (waiting == 0) return 0;
    fetch_add_seq_cst(bell_, 1u);
    Atomics::wake(bell_, static_cast<std::uint32_t>(waiting | (waiting >> 32)));
    return 1;
  }

  /// Wakes every sleeper of both kinds: for rank loss and close.
  int ring_everyone() noexcept {
    fetch_add_seq_cst(bell_, 1u);
    return Atomics::wake(bell_, kFutexAll) >= 0 ? 1 : 0;
  }

  /// Keeper, for a rank whose executor is known to be gone: clears the bits that it can no longer
  /// clear.
  void clear_for_dead_rank(int rank) noexcept {
    clear_bit(asleep_, rank);
    clear_bit(waiting_, rank);
  }

  /// Whether the rank's bits are set: for reports and tests; may be old on return.
  bool is_asleep(int rank) const noexcept { return has_bit(asleep_, rank); }
  bool is_waiting(int rank) const noexcept { return has_bit(waiting_, rank); }

 private:
  static constexpr std::uint32_t futex_bit(int rank) noexcept {
    return std::uint32_t{1} << (static_cast<unsigned>(rank) % 32);
  }

  static void set_bit(Mask& mask, int rank) noexcept {
    fetch_or_seq_cst(mask[RankSet::word_of(rank)], RankSet::bit_of(rank));
  }
  static void clear_bit(Mask& mask, int rank) noexcept {
    fetch_and_seq_cst(mask[RankSet::word_of(rank)], ~RankSet::bit_of(rank));
  }
  static bool has_bit(const Mask& mask, int rank) noexcept {
    return (load_seq_cst(mask[RankSet::word_of(rank)]) & RankSet::bit_of(rank)) != 0;
  }

  int ring_in(const Mask& mask, const RankSet& rung) noexcept {
    fetch_add_seq_cst(bell_, 1u);
    std::uint32_t bitset = 0;
    for (std::size_t i = 0; i < rung.words_used(); ++i) {
      const std::uint64_t sleeping = load_seq_cst(mask[i]) & rung.word(i);
      bitset |= static_cast<std::uint32_t>(sleeping | (sleeping >> 32));
    }
    if (bitset == 0) return 0;
    Atomics::wake(bell_, bitset);
    return 1;
  }

  template <class Ready>
  WaitResult wait_in(Mask& mask, int rank, Ready& ready, SpinPolicy spin,
                     Deadline deadline) noexcept {
    Spinner spinner(spin);
    do {
      if (ready()) return WaitResult::ready;
    } while (spinner.keep_spinning());
    for (;;) {
      const std::uint32_t heard = listen();
      set_bit(mask, rank);
      const bool found = ready();
      const FutexResult slept = found ? FutexResult::changed : sleep(rank, heard, deadline);
      clear_bit(mask, rank);
      if (found || ready()) return WaitResult::ready;
      if (slept == FutexResult::timed_out) return WaitResult::timed_out;
    }
  }

  // Written by: publishers (add). Read by: sleepers, and the kernel. Ordered by: seq_cst, before
  // the masks are read.
  alignas(kCacheLine) typename Atomics::Word32 bell_{};
  // Written by: each rank its own bit (the keeper for a dead rank). Read by: publishers.
  // Ordered by: seq_cst, set before the rank's last look, read after the publisher's stores.
  alignas(kCacheLine) Mask asleep_{};
  alignas(kCacheLine) Mask waiting_{};
};

using Doorbell = BasicDoorbell<>;

static_assert(std::is_standard_layout_v<Doorbell> && std::is_trivially_destructible_v<Doorbell>);
static_assert(sizeof(Doorbell) == 5 * kCacheLine && alignof(Doorbell) == kCacheLine);

}  // namespace rankcast::base
