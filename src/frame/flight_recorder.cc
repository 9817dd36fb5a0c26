#include "frame/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace rankcast::frame {

namespace {

constexpr std::uint64_t kStampsAFlight = 4;
enum Step : std::uint64_t { writing_entry = 1, entered = 2, writing_exit = 3, left = 4 };

constexpr std::uint64_t stamp_of(std::uint64_t number, Step step) noexcept {
  return number * kStampsAFlight + step;
}

// The dispatch that a stamp tells of; nothing for an entry without one or being written.
std::optional<std::uint64_t> number_of(std::uint64_t stamp) noexcept {
  if (stamp == 0 || stamp % 2 == 1) return std::nullopt;
  return (stamp - 1) / kStampsAFlight;
}

}  // namespace

// What a rank wrote may be any number: not subtracted as it is.
std::string duration_text(std::int64_t from_ns, std::int64_t to_ns) {
  const double us = to_ns <= from_ns ? 0
                                     : static_cast<double>(static_cast<std::uint64_t>(to_ns) -
                                                           static_cast<std::uint64_t>(from_ns)) *
                                           1e-3;
  if (us < 1000) return fmt::format("{:.1f} us", us);
  if (us < 1e6) return fmt::format("{:.1f} ms", us * 1e-3);
  return fmt::format("{:.1f} s", us * 1e-6);
}

FlightRecorder::FlightRecorder(FlightEntry* entries, bool tells_tasks) noexcept
    : entries_(entries), tells_tasks_(tells_tasks) {
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < kFlights; ++i) {
    // relaxed: of a predecessor that is gone, or zero
    const std::uint64_t stamp = base::load_relaxed(entries[i].stamp);
    if (stamp != 0) next = std::max(next, (stamp - 1) / kStampsAFlight + 1);
  }
  number_ = next == 0 ? ~std::uint64_t{0} : next - 1;  // enter() goes on to the next
}

void FlightRecorder::enter(const Record& record, std::int64_t entry_ns) noexcept {
  ++number_;
  FlightEntry& entry = entries_[number_ % kFlights];
  base::store_relaxed(  // relaxed: carried along by the release stores below
      entry.stamp, stamp_of(number_, writing_entry));
  base::store_release(entry.run, record.run);      // pairs: flight-entry
  base::store_release(entry.entry_ns, entry_ns);   // pairs: flight-entry
  base::store_release(entry.tasks, record.tasks);  // pairs: flight-entry
  base::store_release(                             // pairs: flight-entry
      entry.kind, static_cast<std::uint32_t>(record.kind));
  if (tells_tasks_) base::store_release(entry.at_task, 0u);      // pairs: flight-entry
  base::store_release(entry.stamp, stamp_of(number_, entered));  // pairs: flight-entry
}

void FlightRecorder::leave(std::uint32_t error_code, std::int64_t exit_ns) noexcept {
  FlightEntry& entry = entries_[number_ % kFlights];
  base::store_relaxed(  // relaxed: carried along by the release stores below
      entry.stamp, stamp_of(number_, writing_exit));
  base::store_release(entry.exit_ns, exit_ns);                // pairs: flight-entry
  base::store_release(entry.error_code, error_code);          // pairs: flight-entry
  base::store_release(entry.stamp, stamp_of(number_, left));  // pairs: flight-entry
}

std::vector<Flight> read_flights(const FlightEntry* entries, std::size_t most) {
  struct Numbered {
    std::uint64_t number;
    Flight flight;
  };
  std::vector<Numbered> found;
  found.reserve(kFlights);
  for (std::size_t i = 0; i < kFlights; ++i) {
    const FlightEntry& entry = entries[i];
    const std::uint64_t stamp = base::load_acquire(entry.stamp);  // pairs: flight-entry
    const auto number = number_of(stamp);
    if (!number) continue;
    Flight flight;
    flight.run = base::load_acquire(entry.run);                 // pairs: flight-entry
    flight.entry_ns = base::load_acquire(entry.entry_ns);       // pairs: flight-entry
    flight.exit_ns = base::load_acquire(entry.exit_ns);         // pairs: flight-entry
    flight.tasks = base::load_acquire(entry.tasks);             // pairs: flight-entry
    flight.error_code = base::load_acquire(entry.error_code);   // pairs: flight-entry
    const std::uint32_t kind = base::load_acquire(entry.kind);  // pairs: flight-entry
    flight.loads_kernels = kind == static_cast<std::uint32_t>(RecordKind::load_kernels);
    flight.task = base::load_acquire(entry.at_task) - 1;  // pairs: flight-entry
    flight.left = stamp == stamp_of(*number, left);
    // relaxed: the acquire loads above come first
    if (base::load_relaxed(entry.stamp) != stamp) continue;
    found.push_back({*number, flight});
  }
  std::ranges::sort(found, std::greater(), &Numbered::number);
  std::vector<Flight> flights;
  for (const Numbered& one : found) {
    if (flights.size() == most) break;
    flights.push_back(one.flight);
  }
  return flights;
}

std::string describe_flights(std::span<const Flight> flights, std::int64_t now_ns) {
  std::string text;
  for (const Flight& flight : flights) {
    if (!text.empty()) text += "; ";
    text += flight.loads_kernels ? fmt::format("run {} (kernel library) ", flight.run)
                                 : fmt::format("run {} ({} task{}) ", flight.run, flight.tasks,
                                               flight.tasks == 1 ? "" : "s");
    if (!flight.left) {
      text += fmt::format("entered {} before and not left", duration_text(flight.entry_ns, now_ns));
      continue;
    }
    const bool known = flight.error_code <= static_cast<std::uint32_t>(ErrorCode::internal);
    const std::string_view outcome =
        flight.error_code == 0 ? "good"
        : known                ? error_code_name(static_cast<ErrorCode>(flight.error_code))
                               : "unknown outcome";
    text += fmt::format("{}, {}", outcome, duration_text(flight.entry_ns, flight.exit_ns));
  }
  return text;
}

}  // namespace rankcast::frame
