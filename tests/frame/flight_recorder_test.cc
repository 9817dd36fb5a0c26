#include "frame/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <thread>

#include "rankcast/error.h"

namespace rankcast::frame {
namespace {

class FlightRecorderTest : public ::testing::Test {
 protected:
  std::vector<std::uint64_t> runs(std::size_t most = kFlights) const {
    std::vector<std::uint64_t> runs;
    for (const Flight& flight : read_flights(entries_->data(), most)) runs.push_back(flight.run);
    return runs;
  }
  /// Every fifth loads kernels.
  static Record record_of(std::uint64_t run, std::uint32_t tasks) {
    Record record;
    record.run = run;
    record.tasks = tasks;
    if (run % 5 == 0) record.kind = RecordKind::load_kernels;
    return record;
  }
  static void fly(FlightRecorder& recorder, std::uint64_t run, std::uint32_t error_code = 0) {
    recorder.enter(record_of(run, static_cast<std::uint32_t>(run % 7)),
                   static_cast<std::int64_t>(10 * run));
    recorder.leave(error_code, static_cast<std::int64_t>(10 * run + 4));
  }

  const std::unique_ptr<std::array<FlightEntry, kFlights>> entries_ =
      std::make_unique<std::array<FlightEntry, kFlights>>();
};

TEST_F(FlightRecorderTest, NothingAtFirst) {
  EXPECT_TRUE(runs().empty());
  EXPECT_EQ(describe_flights({}, 5), "");
}

TEST_F(FlightRecorderTest, TellsTheNewestFirst) {
  FlightRecorder recorder(entries_->data());
  for (std::uint64_t run = 1; run <= 3; ++run) fly(recorder, run);
  recorder.enter(record_of(9, 2), 900);
  EXPECT_THAT(runs(), ::testing::ElementsAre(9, 3, 2, 1));
  EXPECT_THAT(runs(2), ::testing::ElementsAre(9, 3));
  const std::vector<Flight> flights = read_flights(entries_->data(), 2);
  EXPECT_FALSE(flights[0].left);
  EXPECT_EQ(flights[0].entry_ns, 900);
  EXPECT_EQ(flights[0].tasks, 2u);
  EXPECT_TRUE(flights[1].left);
  EXPECT_EQ(flights[1].exit_ns, 34);
}

TEST_F(FlightRecorderTest, KeepsTheLast256) {
  FlightRecorder recorder(entries_->data());
  for (std::uint64_t run = 1; run <= 1000; ++run) fly(recorder, run);
  const std::vector<std::uint64_t> found = runs();
  ASSERT_EQ(found.size(), kFlights);
  for (std::size_t i = 0; i < kFlights; ++i) EXPECT_EQ(found[i], 1000 - i);
}

TEST_F(FlightRecorderTest, ASuccessorGoesOn) {
  for (std::uint64_t run = 1; run <= 5; ++run) {
    FlightRecorder recorder(entries_->data());
    fly(recorder, run);
  }
  EXPECT_THAT(runs(), ::testing::ElementsAre(5, 4, 3, 2, 1));
  // It died while it wrote: the entry is left out, and not written again by the successor.
  (*entries_)[5].stamp.store(5 * 4 + 1);
  EXPECT_THAT(runs(), ::testing::ElementsAre(5, 4, 3, 2, 1));
  FlightRecorder recorder(entries_->data());
  fly(recorder, 6);
  EXPECT_THAT(runs(), ::testing::ElementsAre(6, 5, 4, 3, 2, 1));
}

TEST_F(FlightRecorderTest, TellsTheTaskOnlyWhereItIsAsked) {
  const auto task = [&] { return read_flights(entries_->data(), 1).front().task; };
  FlightRecorder silent(entries_->data());
  silent.enter(record_of(1, 3), 10);
  silent.at_task(2);
  EXPECT_EQ(task(), kNone);
  FlightRecorder recorder(entries_->data(), true);
  recorder.enter(record_of(2, 3), 10);
  EXPECT_EQ(task(), kNone) << "before its first";
  for (std::uint32_t ordinal = 0; ordinal < 3; ++ordinal) {
    recorder.at_task(ordinal);
    EXPECT_EQ(task(), ordinal);
  }
  recorder.leave(0, 20);
  for (std::uint64_t run = 3; run < 3 + kFlights; ++run) {
    recorder.enter(record_of(run, 3), 10);
    ASSERT_EQ(task(), kNone) << "the entry was another's";
    recorder.at_task(1);
    recorder.leave(0, 20);
  }
}

TEST_F(FlightRecorderTest, IsToldInWords) {
  const std::vector<Flight> flights{
      {.run = 812, .tasks = 3, .left = false, .entry_ns = 1'000'000},
      {.run = 811, .tasks = 1, .left = true, .entry_ns = 0, .exit_ns = 3'100},
      {.run = 810,
       .tasks = 1,
       .left = true,
       .error_code = static_cast<std::uint32_t>(ErrorCode::task_failed),
       .entry_ns = 0,
       .exit_ns = 2'500'000'000},
      {.run = 809, .tasks = 1, .left = true, .error_code = 77, .entry_ns = 5, .exit_ns = 0},
      {.run = 808, .loads_kernels = true, .left = true, .entry_ns = 0, .exit_ns = 90'000}};
  EXPECT_EQ(describe_flights(flights, 2'200'000),
            "run 812 (3 tasks) entered 1.2 ms before and not left; run 811 (1 task) good, 3.1 us; "
            "run 810 (1 task) task_failed, 2.5 s; run 809 (1 task) unknown outcome, 0.0 us; "
            "run 808 (kernel library) good, 90.0 us");
}

TEST_F(FlightRecorderTest, NonsenseIsToldAsWell) {
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(describe_flights(std::vector<Flight>{{.run = ~std::uint64_t{0}, .entry_ns = kMin}}, 0),
            "run 18446744073709551615 (0 tasks) entered 9223372036.9 s before and not left");
  EXPECT_EQ(describe_flights(std::vector<Flight>{{.left = true, .entry_ns = kMin, .exit_ns = kMax},
                                                 {.left = true, .entry_ns = kMax, .exit_ns = kMin}},
                             0),
            "run 0 (0 tasks) good, 18446744073.7 s; run 0 (0 tasks) good, 0.0 us");
  (*entries_)[7].stamp.store(~std::uint64_t{0} - 1);
  EXPECT_EQ(runs().size(), 1u);
  FlightRecorder recorder(entries_->data());
  for (std::uint64_t run = 1; run <= 600; ++run) fly(recorder, run);
  EXPECT_LE(runs().size(), kFlights);
}

// Numbers of one dispatch belong together whenever they are read.
TEST_F(FlightRecorderTest, ATornEntryIsNotTold) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    FlightRecorder recorder(entries_->data());
    for (std::uint64_t run = 1; !stop.load(); ++run) fly(recorder, run, run % 2 == 0 ? 0 : 10);
  });
  for (int look = 0; look < 2000; ++look) {
    for (const Flight& flight : read_flights(entries_->data(), kFlights)) {
      ASSERT_EQ(flight.entry_ns, static_cast<std::int64_t>(10 * flight.run));
      ASSERT_EQ(flight.tasks, flight.run % 7);
      ASSERT_EQ(flight.loads_kernels, flight.run % 5 == 0);
      if (!flight.left) continue;
      ASSERT_EQ(flight.exit_ns, static_cast<std::int64_t>(10 * flight.run + 4));
      ASSERT_EQ(flight.error_code, flight.run % 2 == 0 ? 0u : 10u);
    }
  }
  stop.store(true);
  writer.join();
}

}  // namespace
}  // namespace rankcast::frame
