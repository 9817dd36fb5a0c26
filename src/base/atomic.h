// The named atomic operations: the only place where a std::memory_order is spelled.
//
// Every function takes the atomic type as a parameter, so that a type that steps through
// interleavings (tests) stands in for std::atomic. A call with acquire or release carries `//
// pairs: label` (the label occurs at both ends), a relaxed one `// relaxed: reason`. Where a store
// must precede a later load, both are seq_cst and the race is named. Cost: exactly the std::atomic
// operation.
#pragma once

#include <atomic>
#include <cstddef>

namespace rankcast::base {

/// Words written by different threads lie in different lines of this many bytes.
inline constexpr std::size_t kCacheLine = 64;

/// The value that an atomic of type `A` holds.
template <class A>
using AtomicValue = typename A::value_type;

template <class A>
AtomicValue<A> load_relaxed(const A& a) noexcept {
  return a.load(std::memory_order_relaxed);
}
template <class A>
AtomicValue<A> load_acquire(const A& a) noexcept {
  return a.load(std::memory_order_acquire);
}
template <class A>
AtomicValue<A> load_seq_cst(const A& a) noexcept {
  return a.load(std::memory_order_seq_cst);
}

template <class A>
void store_relaxed(A& a, AtomicValue<A> value) noexcept {
  a.store(value, std::memory_order_relaxed);
}
template <class A>
void store_release(A& a, AtomicValue<A> value) noexcept {
  a.store(value, std::memory_order_release);
}
template <class A>
void store_seq_cst(A& a, AtomicValue<A> value) noexcept {
  a.store(value, std::memory_order_seq_cst);
}

/// The read-modify-writes return the value before the operation.
template <class A>
AtomicValue<A> fetch_add_relaxed(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_add(value, std::memory_order_relaxed);
}
template <class A>
AtomicValue<A> fetch_add_acq_rel(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_add(value, std::memory_order_acq_rel);
}
template <class A>
AtomicValue<A> fetch_add_seq_cst(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_add(value, std::memory_order_seq_cst);
}
template <class A>
AtomicValue<A> fetch_sub_relaxed(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_sub(value, std::memory_order_relaxed);
}
template <class A>
AtomicValue<A> fetch_sub_acq_rel(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_sub(value, std::memory_order_acq_rel);
}
template <class A>
AtomicValue<A> fetch_sub_seq_cst(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_sub(value, std::memory_order_seq_cst);
}
template <class A>
AtomicValue<A> fetch_or_relaxed(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_or(value, std::memory_order_relaxed);
}
template <class A>
AtomicValue<A> fetch_or_acq_rel(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_or(value, std::memory_order_acq_rel);
}
template <class A>
AtomicValue<A> fetch_or_seq_cst(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_or(value, std::memory_order_seq_cst);
}
template <class A>
AtomicValue<A> fetch_and_relaxed(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_and(value, std::memory_order_relaxed);
}
template <class A>
AtomicValue<A> fetch_and_acq_rel(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_and(value, std::memory_order_acq_rel);
}
template <class A>
AtomicValue<A> fetch_and_seq_cst(A& a, AtomicValue<A> value) noexcept {
  return a.fetch_and(value, std::memory_order_seq_cst);
}
template <class A>
AtomicValue<A> exchange_acq_rel(A& a, AtomicValue<A> value) noexcept {
  return a.exchange(value, std::memory_order_acq_rel);
}
template <class A>
AtomicValue<A> exchange_seq_cst(A& a, AtomicValue<A> value) noexcept {
  return a.exchange(value, std::memory_order_seq_cst);
}

/// Strong compare-exchange: true if `expected` was found and `desired` stored; else `expected`
/// takes what was found.
template <class A>
bool compare_exchange_acq_rel(A& a, AtomicValue<A>& expected, AtomicValue<A> desired) noexcept {
  return a.compare_exchange_strong(expected, desired, std::memory_order_acq_rel,
                                   std::memory_order_acquire);
}
template <class A>
bool compare_exchange_seq_cst(A& a, AtomicValue<A>& expected, AtomicValue<A> desired) noexcept {
  return a.compare_exchange_strong(expected, desired, std::memory_order_seq_cst,
                                   std::memory_order_seq_cst);
}

}  // namespace rankcast::base
