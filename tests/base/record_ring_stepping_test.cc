// The record ring, all schedules: no record is torn, stale, lost or taken twice, also when the ring
// wraps.
#include <gtest/gtest.h>

#include <array>

#include "base/record_ring.h"
#include "base/stepping_atomic.h"
#include "base/stepping_report.h"

namespace rankcast::base::stepping {
namespace {

constexpr const char* kTorn = "a torn or stale record";

struct Record {
  std::array<std::uint64_t, 8> words;

  static Record numbered(std::uint64_t number) {
    return Record{{number, 0, 0, 0, 0, 0, 0, number}};
  }
};

void check(const Record& record, std::uint64_t number) {
  Stepper::require(record.words[0] == number && record.words[7] == number, kTorn);
}

// A ring of `kSlots`; the writer writes while there is room, the reader looks `looks` times.
template <class Atomics, std::size_t kSlots>
Exploration pass(std::uint64_t records, int looks) {
  Stepper stepper;
  BasicRingTail<Atomics> tail;
  BasicRingHead<Atomics> head;
  std::array<SteppedPlain<Record>, kSlots> slots;
  stepper.add_thread([&, records] {
    RingWriter<Record, Atomics> writer(tail, head, slots);
    for (std::uint64_t number = 1; number <= records; ++number) {
      if (!writer.has_room()) break;
      writer.write(Record::numbered(number));
      writer.publish();
    }
    return writer.published();
  });
  stepper.add_thread([&, looks] {
    RingReader<Record, Atomics> reader(tail, head, slots);
    for (int look = 0; look < looks; ++look) {
      if (!reader.has_record()) continue;
      const std::uint64_t number = reader.taken() + 1;
      check(reader.take(), number);
    }
    return reader.taken();
  });
  stepper.set_final_check([&](const Stepper::Results& results) {
    return load_relaxed(tail.count) == results[0] && load_relaxed(head.count) == results[1] &&
           results[1] <= results[0] && results[0] - results[1] <= kSlots;
  });
  return stepper.explore();
}

using RelaxedCounts = SteppedAtomics<Weakening::none, Weakening::all_to_relaxed>;
using ReleasedCounts = SteppedAtomics<Weakening::none, Weakening::seq_cst_to_acq_rel>;

TEST(RecordRingSteppingTest, RecordsArriveWhole) {
  expect_good(pass<Faithful, 1>(3, 4));
  expect_good(pass<Faithful, 2>(4, 5));
}

// Without the doorbell, release and acquire suffice for the ring itself.
TEST(RecordRingSteppingTest, ReleaseAndAcquireSufficeForTheRingAlone) {
  expect_good(pass<ReleasedCounts, 2>(3, 4));
}

TEST(RecordRingSteppingTest, MutantCountsRelaxed) {
  expect_found(pass<RelaxedCounts, 2>(2, 2), kTorn);
}

// Several records are filled first and appear with one publish; what was discarded never appears.
TEST(RecordRingSteppingTest, WrittenButNotPublishedIsNotSeen) {
  Stepper stepper;
  BasicRingTail<Faithful> tail;
  BasicRingHead<Faithful> head;
  std::array<SteppedPlain<Record>, 2> slots;
  stepper.add_thread([&] {
    RingWriter<Record, Faithful> writer(tail, head, slots);
    writer.write(Record::numbered(100));
    writer.discard();
    writer.write(Record::numbered(1));
    writer.write(Record::numbered(2));
    writer.publish();
    return writer.published();
  });
  stepper.add_thread([&] {
    RingReader<Record, Faithful> reader(tail, head, slots);
    const bool first = reader.has_record();
    if (first) check(reader.take(), 1);
    if (first) {
      Stepper::require(reader.has_record(), "the second record came later than the first");
      check(reader.take(), 2);
    }
    return 0u;
  });
  expect_good(stepper.explore());
}

// The reader's order by hand: a slot given back before it is copied out is overwritten under the
// reader.
TEST(RecordRingSteppingTest, MutantSlotGivenBackTooEarly) {
  Stepper stepper;
  BasicRingTail<Faithful> tail;
  BasicRingHead<Faithful> head;
  std::array<SteppedPlain<Record>, 1> slots;
  stepper.add_thread([&] {
    RingWriter<Record, Faithful> writer(tail, head, slots);
    for (std::uint64_t number = 1; number <= 2; ++number) {
      if (!writer.has_room()) break;
      writer.write(Record::numbered(number));
      writer.publish();
    }
    return 0u;
  });
  stepper.add_thread([&] {
    if (load_seq_cst(tail.count) == 0) return 0u;
    store_release(head.count, 1);
    check(slots[0], 1);
    return 0u;
  });
  expect_found(stepper.explore(), kTorn);
}

}  // namespace
}  // namespace rankcast::base::stepping
