// A single-producer, single-consumer ring of 64-byte records: how a lane is told to run a frame
// (PROTOCOL P3).
//
// The tail, a 64-bit count of records ever published, is the truth of P3. Writing records and
// storing the tail are separate, so that a publisher fills the rings of all ranks, then stores all
// tails, then rings the doorbell once. Tail, head and slots are placed by the caller: over a
// process link the tail and the slots lie where the rank only reads, the head where it writes.
// Counts never wrap: 64 bits last 5,800 years at 100,000,000 records a second.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/atomic.h"
#include "base/check.h"
#include "base/native_atomics.h"

namespace rankcast::base {

inline constexpr std::size_t kRecordBytes = 64;

/// All zero bytes are the initial state of tail and head.
template <class Atomics = NativeAtomics>
struct alignas(kCacheLine) BasicRingTail {
  // Written by: the host, under the mesh's mutex. Read by: the rank; the keeper for a dead rank.
  // Ordered by: seq_cst, after the records are written and before the doorbell is added to.
  typename Atomics::Word64 count{};
};

template <class Atomics = NativeAtomics>
struct alignas(kCacheLine) BasicRingHead {
  // Written by: the rank (the keeper for a dead rank). Read by: the host, to find room.
  // Ordered by: release after a record is copied out, acquire before its slot is written again
  // (pairs: ring-head).
  typename Atomics::Word64 count{};
};

using RingTail = BasicRingTail<>;
using RingHead = BasicRingHead<>;
static_assert(sizeof(RingTail) == kCacheLine && sizeof(RingHead) == kCacheLine);

/// The host's end. Used under the mesh's mutex. Tail, head and slots are borrowed and outlive it;
/// the number of slots is a power of two. Continues at the tail's count. No function fails or
/// allocates.
template <class Record, class Atomics = NativeAtomics>
class RingWriter {
 public:
  using Slot = typename Atomics::template Plain<Record>;

  RingWriter(BasicRingTail<Atomics>& tail, const BasicRingHead<Atomics>& head,
             std::span<Slot> slots) noexcept
      : tail_(&tail), head_(&head), slots_(slots.data()), mask_(slots.size() - 1) {
    static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) == kRecordBytes);
    RC_CHECK(std::has_single_bit(slots.size()));
    written_ = published_ = load_acquire(tail.count);  // pairs: ring-tail
    seen_head_ = load_acquire(head.count);             // pairs: ring-head
  }

  std::size_t capacity() const noexcept { return mask_ + 1; }

  /// True if `records` more can be written; false where the rank's head is damaged. Reads the head
  /// only when the last value seen does not suffice.
  bool has_room(std::size_t records = 1) noexcept {
    if (room_seen() >= records) return true;
    seen_head_ = load_acquire(head_->count);  // pairs: ring-head
    return room_seen() >= records;
  }

  /// Writes the next record; the rank does not see it yet. There must be room (always checked).
  void write(const Record& record) noexcept {
    RC_CHECK(has_room());
    slots_[written_ & mask_] = record;
    ++written_;
  }

  /// Takes back what was written since the last publish: for a submit that is refused.
  void discard() noexcept { written_ = published_; }

  /// Stores the tail: the rank sees all that was written. Ring the doorbell afterwards, once for
  /// all rings.
  void publish() noexcept {
    published_ = written_;
    store_seq_cst(tail_->count, published_);  // pairs: ring-tail
  }

  /// Records ever published, and records that the rank has not taken yet.
  std::uint64_t published() const noexcept { return published_; }
  std::uint64_t pending() const noexcept {
    return published_ - load_acquire(head_->count);  // pairs: ring-head
  }

 private:
  // A head that passes what was written, or lies further back than the ring is long, is damaged:
  // the rank takes only what was published. There is no room then.
  std::size_t room_seen() const noexcept {
    const std::uint64_t pending = written_ - seen_head_;
    return pending <= capacity() ? capacity() - static_cast<std::size_t>(pending) : 0;
  }

  BasicRingTail<Atomics>*
      tail_;  // borrowed from the link's shared memory, which outlives both ends
  const BasicRingHead<Atomics>* head_;  // borrowed likewise
  Slot* slots_;                         // borrowed likewise
  std::size_t mask_;
  std::uint64_t written_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t seen_head_ = 0;
};

/// The rank's end. Used by the rank's thread alone. Tail, head and slots are borrowed and outlive
/// it. Continues at the head's count. No function fails or allocates.
template <class Record, class Atomics = NativeAtomics>
class RingReader {
 public:
  using Slot = typename Atomics::template Plain<Record>;

  RingReader(const BasicRingTail<Atomics>& tail, BasicRingHead<Atomics>& head,
             std::span<const Slot> slots) noexcept
      : tail_(&tail), head_(&head), slots_(slots.data()), mask_(slots.size() - 1) {
    static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) == kRecordBytes);
    RC_CHECK(std::has_single_bit(slots.size()));
    taken_ = load_acquire(head.count);  // pairs: ring-head
  }

  /// The look of P3 (a seq_cst load of the tail): for use around a sleep, and before take().
  bool has_record() const noexcept { return load_seq_cst(tail_->count) != taken_; }

  /// Copies the next record out and gives its slot back. Only after has_record() was true.
  Record take() noexcept {
    const Record record = slots_[taken_ & mask_];
    ++taken_;
    store_release(head_->count, taken_);  // pairs: ring-head
    return record;
  }

  /// Records ever taken.
  std::uint64_t taken() const noexcept { return taken_; }

 private:
  const BasicRingTail<Atomics>*
      tail_;  // borrowed from the link's shared memory, which outlives both ends
  BasicRingHead<Atomics>* head_;  // borrowed likewise
  const Slot* slots_;             // borrowed likewise
  std::size_t mask_;
  std::uint64_t taken_ = 0;
};

/// For a rank that is known to be gone (PROTOCOL P6): every record that the host has published
/// counts as taken, and what the rank wrote over tail and head is no more.
template <class Atomics>
void drop_pending_records(BasicRingTail<Atomics>& tail, BasicRingHead<Atomics>& head,
                          std::uint64_t published) noexcept {
  store_seq_cst(tail.count, published);  // pairs: ring-tail
  store_release(head.count, published);  // pairs: ring-head
}

}  // namespace rankcast::base
