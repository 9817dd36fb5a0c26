#include "link/ranks.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace rankcast::link {
namespace {

void add_to_segment(RankPort& port, const Message& message) {
  std::uint64_t bytes = 0;
  std::byte* base = port.segment(static_cast<std::uint32_t>(message.value), &bytes);
  if (base == nullptr || bytes < message.extra) return;
  for (std::uint64_t i = 0; i < message.extra; ++i)
    base[i] = static_cast<std::byte>(std::to_integer<int>(base[i]) + 1 + port.rank());
}

void act(RankPort& port, Area& area, Area::OfRank& mine, const Message& message) {
  const auto moved = [&]() noexcept { return base::load_seq_cst(area.word) >= message.value; };
  switch (message.kind) {
    case Message::add:
      add_to_segment(port, message);
      break;
    case Message::probe:
      port.segment(static_cast<std::uint32_t>(message.value), &mine.found);
      break;
    case Message::poke:
      area.bytes[message.value] = static_cast<std::byte>(port.rank() + 1);
      break;
    case Message::wait_inside:
      port.wait_until(moved);
      break;
    case Message::wait_hard:
      eventually(moved);
      break;
    case Message::print:
      std::printf("out %d of rank %d\n", static_cast<int>(message.value), port.rank());
      std::fflush(stdout);
      std::fprintf(stderr, "err %d of rank %d\n", static_cast<int>(message.value), port.rank());
      break;
    case Message::crash:
      raise(SIGKILL);
      break;
    case Message::leave:
      _exit(static_cast<int>(message.value));
    default:
      break;
  }
}

}  // namespace

void test_rank_main(std::string_view hello, RankPort& port) noexcept {
  Area& area = Area::at(port.shared());
  Area::OfRank& mine = area.of(port.rank());
  if (hello == kFails) {
    port.report(base::failure(ErrorCode::unsupported, "no such device {}", std::string(1000, 'x')));
    return;
  }
  if (hello == kLeaves) _exit(4);
  if (hello == kSilent && !eventually([&] { return base::load_seq_cst(area.word) != 0; })) return;
  if (hello == kNonsense) {
    port.report(base::failure(static_cast<ErrorCode>(99), "nonsense"));
    return;
  }
  mine.rank = port.rank();
  mine.world_size = port.world_size();
  port.report({});
  for (;;) {
    const auto message = std::bit_cast<Message>(port.next());
    if (message.kind == Message::stop) return;
    act(port, area, mine, message);
    const std::uint64_t count = base::load_seq_cst(mine.count);
    mine.seen[count % Area::kMost] = message.value;
    base::store_seq_cst(mine.count, count + 1);
    base::Countdown alone;  // each rank is its runs' last lane
    alone.arm(message.run, 1);
    port.finish(base::TimelineValue::make(message.run, 1), alone, message.flags != 0);
  }
}

}  // namespace rankcast::link
