#include "base/record_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace rankcast::base {
namespace {

struct Record {
  std::array<std::uint64_t, 8> words;

  static Record numbered(std::uint64_t number) {
    Record record{};
    record.words.fill(number);
    return record;
  }
};

template <std::size_t kSlots>
struct Ring {
  RingTail tail;
  RingHead head;
  std::array<Record, kSlots> slots{};

  RingWriter<Record> writer() { return {tail, head, slots}; }
  RingReader<Record> reader() { return {tail, head, slots}; }
};

TEST(RecordRingTest, EmptyAtFirst) {
  Ring<4> ring;
  auto writer = ring.writer();
  auto reader = ring.reader();
  EXPECT_EQ(writer.capacity(), 4u);
  EXPECT_FALSE(reader.has_record());
  EXPECT_TRUE(writer.has_room(4));
  EXPECT_FALSE(writer.has_room(5));
}

TEST(RecordRingTest, SeenOnlyOncePublished) {
  Ring<4> ring;
  auto writer = ring.writer();
  auto reader = ring.reader();
  writer.write(Record::numbered(1));
  EXPECT_FALSE(reader.has_record());
  writer.publish();
  EXPECT_TRUE(reader.has_record());
  EXPECT_EQ(writer.pending(), 1u);
  EXPECT_EQ(reader.take().words[7], 1u);
  EXPECT_FALSE(reader.has_record());
  EXPECT_EQ(writer.pending(), 0u);
}

TEST(RecordRingTest, DiscardTakesBackOnlyWhatIsNotPublished) {
  Ring<2> ring;
  auto writer = ring.writer();
  auto reader = ring.reader();
  writer.write(Record::numbered(1));
  writer.publish();
  writer.write(Record::numbered(2));
  EXPECT_FALSE(writer.has_room());
  writer.discard();
  EXPECT_TRUE(writer.has_room());
  writer.write(Record::numbered(3));
  writer.publish();
  EXPECT_EQ(reader.take().words[0], 1u);
  EXPECT_EQ(reader.take().words[0], 3u);
}

TEST(RecordRingTest, FullUntilTheRankTakes) {
  Ring<2> ring;
  auto writer = ring.writer();
  auto reader = ring.reader();
  for (std::uint64_t number = 0; number < 100; ++number) {
    ASSERT_TRUE(writer.has_room());
    writer.write(Record::numbered(number));
    writer.publish();
    if (number == 0) continue;
    ASSERT_FALSE(writer.has_room());
    ASSERT_EQ(reader.take().words[3], number - 1);
    ASSERT_EQ(reader.taken(), number);
  }
}

TEST(RecordRingDeathTest, WritingWithoutRoomIsABug) {
  Ring<1> ring;
  auto writer = ring.writer();
  writer.write(Record::numbered(1));
  EXPECT_DEATH(writer.write(Record::numbered(2)), "has_room");
}

TEST(RecordRingTest, EndsContinueWhereTheCountsStand) {
  Ring<2> ring;
  {
    auto writer = ring.writer();
    writer.write(Record::numbered(1));
    writer.write(Record::numbered(2));
    writer.publish();
    auto reader = ring.reader();
    EXPECT_EQ(reader.take().words[0], 1u);
  }
  auto reader = ring.reader();
  auto writer = ring.writer();
  EXPECT_EQ(writer.published(), 2u);
  writer.write(Record::numbered(3));
  writer.publish();
  EXPECT_EQ(reader.take().words[0], 2u);
  EXPECT_EQ(reader.take().words[0], 3u);
}

TEST(RecordRingTest, DropPendingRecords) {
  Ring<4> ring;
  auto writer = ring.writer();
  for (std::uint64_t number = 1; number <= 4; ++number) writer.write(Record::numbered(number));
  writer.publish();
  store_seq_cst(ring.tail.count, std::uint64_t{77});  // it lost its mind before it died
  store_seq_cst(ring.head.count, std::uint64_t{9});
  drop_pending_records(ring.tail, ring.head, writer.published());
  EXPECT_EQ(writer.pending(), 0u);
  EXPECT_TRUE(writer.has_room(4));
  auto successor = ring.reader();
  EXPECT_FALSE(successor.has_record());
  EXPECT_EQ(successor.taken(), 4u);
}

TEST(RecordRingTest, RecordsCrossThreadsInOrder) {
  constexpr std::uint64_t kRecords = 20'000;
  Ring<8> ring;
  std::thread host([&] {
    auto writer = ring.writer();
    for (std::uint64_t number = 0; number < kRecords; ++number) {
      while (!writer.has_room()) std::this_thread::yield();
      writer.write(Record::numbered(number));
      if (number % 3 != 0 || !writer.has_room()) writer.publish();
    }
    writer.publish();
  });
  auto reader = ring.reader();
  std::uint64_t wrong = 0;
  for (std::uint64_t number = 0; number < kRecords; ++number) {
    while (!reader.has_record()) std::this_thread::yield();
    const Record record = reader.take();
    for (const std::uint64_t word : record.words) wrong += word != number;
  }
  host.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_FALSE(reader.has_record());
}

TEST(RecordRingTest, ADamagedHeadLeavesNoRoom) {
  for (const std::uint64_t head :
       {std::uint64_t{5}, std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{4} - 8}) {
    Ring<4> ring;
    auto writer = ring.writer();
    for (int i = 0; i < 4; ++i) writer.write(Record::numbered(1));
    writer.publish();
    store_release(ring.head.count, head);  // pairs: ring-head
    EXPECT_FALSE(writer.has_room()) << head;
    store_release(ring.head.count, std::uint64_t{4});  // pairs: ring-head
    EXPECT_TRUE(writer.has_room(4));
  }
}

}  // namespace
}  // namespace rankcast::base
