// An atomic whose every operation is one step of the Stepper, and the parameters that put it into
// the lock-free types of base/: faithful, or with one order weakened, which the tests must find.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/futex.h"
#include "base/stepper.h"

namespace rankcast::base::stepping {

/// What becomes of the orders that the code under test asks for.
enum class Weakening : std::uint8_t {
  none,
  seq_cst_to_acq_rel,
  all_to_relaxed,
};

template <class T, Weakening kWeakening = Weakening::none>
class SteppedAtomic {
 public:
  using value_type = T;  // NOLINT(readability-identifier-naming): the name std::atomic has

  SteppedAtomic() : SteppedAtomic(T{}) {}
  explicit SteppedAtomic(T value)
      : cell_(Stepper::current().add_cell(value, static_cast<int>(sizeof(T) * 8))) {
    if (kWeakening == Weakening::all_to_relaxed) mark_for_stale_loads();
  }
  SteppedAtomic(const SteppedAtomic&) = delete;
  SteppedAtomic& operator=(const SteppedAtomic&) = delete;

  T load(std::memory_order order) const { return perform(OpKind::load, order, 0); }
  void store(T value, std::memory_order order) { perform(OpKind::store, order, value); }
  T fetch_add(T value, std::memory_order order) { return perform(OpKind::add, order, value); }
  T fetch_sub(T value, std::memory_order order) {
    return perform(OpKind::add, order, static_cast<T>(T{} - value));
  }
  T fetch_or(T value, std::memory_order order) { return perform(OpKind::bit_or, order, value); }
  T fetch_and(T value, std::memory_order order) { return perform(OpKind::bit_and, order, value); }
  T exchange(T value, std::memory_order order) { return perform(OpKind::exchange, order, value); }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order, std::memory_order) {
    const T found = perform(OpKind::compare_exchange, order, desired, expected);
    const bool same = found == expected;
    expected = found;
    return same;
  }

  std::uint16_t cell() const { return cell_; }

  /// Relaxed loads of it may then give older values.
  void mark_for_stale_loads() { Stepper::current().mark_for_stale_loads(cell_); }

 private:
  static Order order_of(std::memory_order order) {
    if (kWeakening == Weakening::all_to_relaxed || order == std::memory_order_relaxed) {
      return Order::relaxed;
    }
    if (kWeakening == Weakening::seq_cst_to_acq_rel) return Order::acq_rel;
    return order == std::memory_order_seq_cst ? Order::seq_cst : Order::acq_rel;
  }

  T perform(OpKind kind, std::memory_order order, T value, T expected = T{}) const {
    Op op;
    op.kind = kind;
    op.order = order_of(order);
    op.cell = cell_;
    op.value = value;
    op.expected = expected;
    return static_cast<T>(Stepper::current().perform(op));
  }

  std::uint16_t cell_;
};

/// A mutex of the model: what the mesh's mutex is to P1 and to two publishers. No destructor, so it
/// may be held across steps.
class SteppedMutex {
 public:
  void lock() {
    Op op;
    op.kind = OpKind::lock;
    op.cell = word_.cell();
    Stepper::current().perform(op);
  }
  void unlock() { word_.store(0, std::memory_order_release); }

 private:
  SteppedAtomic<std::uint32_t> word_;
};

/// An eventfd of the model.
class SteppedEvent {
 public:
  explicit SteppedEvent(SteppedAtomic<std::uint32_t>& count) : count_(&count) {}
  void notify() const { count_->exchange(1, std::memory_order_acq_rel); }
  bool drain() const { return count_->exchange(0, std::memory_order_acq_rel) != 0; }
  void poll() const {
    Op op;
    op.kind = OpKind::poll_nonzero;
    op.cell = count_->cell();
    Stepper::current().perform(op);
  }
  int fd() const { return -1; }

 private:
  SteppedAtomic<std::uint32_t>* count_;
};

/// Plain data in the model: its first and its last word are written and read in steps of their own,
/// relaxed, so that a reader that comes too early sees old or torn data. `T` is eight 64-bit words,
/// `words`.
template <class T>
class SteppedPlain {
 public:
  SteppedPlain() {
    first_.mark_for_stale_loads();
    last_.mark_for_stale_loads();
  }
  SteppedPlain& operator=(const T& value) {
    first_.store(value.words[0], std::memory_order_relaxed);
    last_.store(value.words[7], std::memory_order_relaxed);
    return *this;
  }
  operator T() const {  // as plain data reads
    T value{};
    value.words[0] = first_.load(std::memory_order_relaxed);
    value.words[7] = last_.load(std::memory_order_relaxed);
    return value;
  }

 private:
  SteppedAtomic<std::uint64_t> first_;
  SteppedAtomic<std::uint64_t> last_;
};

/// Stands in for NativeAtomics; Word32 and Word64 may each be weakened.
template <Weakening kWeak32 = Weakening::none, Weakening kWeak64 = Weakening::none>
struct SteppedAtomics {
  using Word32 = SteppedAtomic<std::uint32_t, kWeak32>;
  using Word64 = SteppedAtomic<std::uint64_t, kWeak64>;
  template <class T>
  using Plain = SteppedPlain<T>;
  using Event = SteppedEvent;

  static FutexResult wait(const Word32& word, std::uint32_t expected, std::uint32_t bitset,
                          Deadline deadline) {
    Op op;
    op.kind = OpKind::futex_wait;
    op.can_time_out = !deadline.is_never();
    op.cell = word.cell();
    op.value = bitset;
    op.expected = expected;
    return static_cast<FutexResult>(Stepper::current().perform(op));
  }
  static int wake(const Word32& word, std::uint32_t bitset) {
    Op op;
    op.kind = OpKind::futex_wake;
    op.cell = word.cell();
    op.value = bitset;
    return static_cast<int>(Stepper::current().perform(op));
  }
};

using Faithful = SteppedAtomics<>;

}  // namespace rankcast::base::stepping
