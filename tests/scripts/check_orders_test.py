from planted import PlantedTreeTest

import check_orders

RING = """
  void push() { store_release(tail_, 1); }  // pairs: ring-tail
  bool look() {
    // pairs: ring-tail
    return load_acquire(tail_) != 0;
  }
  std::uint64_t own() { return load_relaxed(tail_); }  // relaxed: the only writer reads its own store
  // Written by: the host. Read by: the rank.
  // Ordered by: ring-tail.
  std::atomic<std::uint64_t> tail_{0};
"""


class CheckOrdersTest(PlantedTreeTest):
    def report(self, ring: str, path: str = "src/base/ring.h", **more: str):
        return check_orders.report(self.plant({path: ring}))

    def test_good_ring_passes(self):
        report = self.report(RING)
        self.assert_clean(report)
        self.assertEqual(report.note, "3 weak operations, 1 labels")

    def test_release_without_a_label(self):
        report = self.report(RING + "  void also() { store_release(tail_, 2); }\n")
        self.assert_found(report, "store_release", "pairs: label")

    def test_relaxed_without_a_reason(self):
        report = self.report(RING.replace("// relaxed: the only writer reads its own store", ""))
        self.assert_found(report, "load_relaxed", "relaxed: reason")

    def test_label_of_another_call_does_not_count(self):
        ring = RING + "\n  void a() { store_release(tail_, 2); }\n  // pairs: ring-tail\n  int b;\n"
        self.assert_found(self.report(ring), "store_release")

    def test_label_at_the_end_of_a_statement_of_two_lines(self):
        ring = RING + "  bool a() {\n    return load_acquire(\n        tail_);  // pairs: ring-tail\n  }\n"
        self.assert_clean(self.report(ring))

    def test_label_at_one_end_only(self):
        report = self.report(RING + "  void a() { store_release(tail_, 2); }  // pairs: alone\n")
        self.assert_found(report, "`alone`", "one end")

    def test_label_at_two_releases(self):
        ring = RING + "  void a() { store_release(tail_, 2); }  // pairs: two\n" * 2
        self.assert_found(self.report(ring), "`two`", "joins no release with an acquire")

    def test_sequentially_consistent_end(self):
        ring = RING + ("  void a() { store_seq_cst(tail_, 2); }  // pairs: strong\n"
                       "  bool b() { return load_acquire(tail_); }  // pairs: strong\n")
        self.assert_clean(self.report(ring))

    def test_raw_order(self):
        ring = RING + "  void a() { other.store(1, std::memory_order_release); }\n"
        self.assert_found(self.report(ring), "raw memory order")

    def test_fence(self):
        ring = RING + "  void a() { std::atomic_thread_fence(order); }\n"
        self.assert_found(self.report(ring), "raw memory order or fence")

    def test_raw_order_in_a_comment_is_none(self):
        self.assert_clean(self.report(RING + "  // not std::memory_order_relaxed\n"))

    def test_atomic_used_without_a_helper(self):
        self.assert_found(self.report(RING + "  void a() { tail_.store(3); }\n"), "tail_ is used without a helper")

    def test_store_of_something_else_is_none(self):
        self.assert_clean(self.report(RING + "  void a() { shop.store(3); }\n"))

    def test_atomic_that_does_not_say_who_writes_it(self):
        self.assert_found(self.report(RING.replace("Written by: the host.", "")), "written by")

    def test_atomic_of_a_type_parameter(self):
        self.assert_found(self.report("\n  alignas(64) typename Atomics::Word32 bell_{};\n"), "written by, read by")

    def test_atomic_where_nothing_is_shared(self):
        self.assert_found(self.report(RING, path="src/tensor/ring.h"), "shares no words")

    def test_reference_to_an_atomic_declares_none(self):
        self.assertEqual(check_orders.declared_atomic("  std::atomic<int>& word_;"), "")
        self.assertEqual(check_orders.declared_atomic("  int wait(const std::atomic<int>& word);"), "")
        self.assertEqual(check_orders.declared_atomic("  using Word32 = std::atomic<std::uint32_t>;"), "")
        self.assertEqual(check_orders.declared_atomic("  std::array<std::atomic<int>, 4> words{};"), "words")
