#include "base/atomic.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

namespace rankcast::base {
namespace {

// Notes the order that each operation asked for, so that a name cannot lie.
struct Witness {
  using value_type = int;  // NOLINT(readability-identifier-naming): the name std::atomic has
  mutable std::memory_order success{};
  mutable std::memory_order on_failure{};
  int held = 5;

  int load(std::memory_order order) const { return success = order, held; }
  void store(int value, std::memory_order order) { success = order, held = value; }
  int fetch_add(int, std::memory_order order) { return success = order, held; }
  int fetch_sub(int, std::memory_order order) { return success = order, held; }
  int fetch_or(int, std::memory_order order) { return success = order, held; }
  int fetch_and(int, std::memory_order order) { return success = order, held; }
  int exchange(int, std::memory_order order) { return success = order, held; }
  bool compare_exchange_strong(int&, int, std::memory_order a, std::memory_order b) {
    success = a;
    on_failure = b;
    return true;
  }
};

template <class Operation>
std::memory_order order_of(Operation operation) {
  Witness witness;
  operation(witness);
  return witness.success;
}

TEST(AtomicTest, NamesSayTheOrder) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  constexpr auto kAcqRel = std::memory_order_acq_rel;
  constexpr auto kSeqCst = std::memory_order_seq_cst;
  EXPECT_EQ(order_of([](auto& a) { load_relaxed(a); }), kRelaxed);
  EXPECT_EQ(order_of([](auto& a) { load_acquire(a); }), std::memory_order_acquire);
  EXPECT_EQ(order_of([](auto& a) { load_seq_cst(a); }), kSeqCst);
  EXPECT_EQ(order_of([](auto& a) { store_relaxed(a, 1); }), kRelaxed);
  EXPECT_EQ(order_of([](auto& a) { store_release(a, 1); }), std::memory_order_release);
  EXPECT_EQ(order_of([](auto& a) { store_seq_cst(a, 1); }), kSeqCst);
  EXPECT_EQ(order_of([](auto& a) { fetch_add_relaxed(a, 1); }), kRelaxed);
  EXPECT_EQ(order_of([](auto& a) { fetch_add_acq_rel(a, 1); }), kAcqRel);
  EXPECT_EQ(order_of([](auto& a) { fetch_add_seq_cst(a, 1); }), kSeqCst);
  EXPECT_EQ(order_of([](auto& a) { fetch_sub_relaxed(a, 1); }), kRelaxed);
  EXPECT_EQ(order_of([](auto& a) { fetch_sub_acq_rel(a, 1); }), kAcqRel);
  EXPECT_EQ(order_of([](auto& a) { fetch_sub_seq_cst(a, 1); }), kSeqCst);
  EXPECT_EQ(order_of([](auto& a) { fetch_or_relaxed(a, 1); }), kRelaxed);
  EXPECT_EQ(order_of([](auto& a) { fetch_or_acq_rel(a, 1); }), kAcqRel);
  EXPECT_EQ(order_of([](auto& a) { fetch_or_seq_cst(a, 1); }), kSeqCst);
  EXPECT_EQ(order_of([](auto& a) { fetch_and_relaxed(a, 1); }), kRelaxed);
  EXPECT_EQ(order_of([](auto& a) { fetch_and_acq_rel(a, 1); }), kAcqRel);
  EXPECT_EQ(order_of([](auto& a) { fetch_and_seq_cst(a, 1); }), kSeqCst);
  EXPECT_EQ(order_of([](auto& a) { exchange_acq_rel(a, 1); }), kAcqRel);
  EXPECT_EQ(order_of([](auto& a) { exchange_seq_cst(a, 1); }), kSeqCst);
}

TEST(AtomicTest, CompareExchangeOrdersBothOutcomes) {
  Witness witness;
  int expected = 0;
  compare_exchange_acq_rel(witness, expected, 1);
  EXPECT_EQ(witness.success, std::memory_order_acq_rel);
  EXPECT_EQ(witness.on_failure, std::memory_order_acquire);
  compare_exchange_seq_cst(witness, expected, 1);
  EXPECT_EQ(witness.success, std::memory_order_seq_cst);
  EXPECT_EQ(witness.on_failure, std::memory_order_seq_cst);
}

TEST(AtomicTest, OperationsReturnTheValueBefore) {
  std::atomic<std::uint32_t> word{6};
  EXPECT_EQ(fetch_add_seq_cst(word, 4u), 6u);
  EXPECT_EQ(fetch_sub_seq_cst(word, 2u), 10u);
  EXPECT_EQ(fetch_or_seq_cst(word, 1u), 8u);
  EXPECT_EQ(fetch_and_seq_cst(word, 1u), 9u);
  EXPECT_EQ(exchange_acq_rel(word, 7u), 1u);
  std::uint32_t expected = 6;
  EXPECT_FALSE(compare_exchange_acq_rel(word, expected, 1u));
  EXPECT_EQ(expected, 7u);
  EXPECT_TRUE(compare_exchange_seq_cst(word, expected, 1u));
  EXPECT_EQ(load_seq_cst(word), 1u);
}

}  // namespace
}  // namespace rankcast::base
