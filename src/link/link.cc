#include "link/link.h"

#include <fmt/ranges.h>

#include <array>
#include <thread>

#include "link/kinds.h"

namespace rankcast::link {
namespace {

constexpr std::array kKinds{LinkKind{"thread", &create_thread_link},
                            LinkKind{"process", &create_process_link}};

}  // namespace

Link::Link(Control control, base::KeeperSignal& keeper, base::SpinPolicy spin)
    : control_(control), keeper_(&keeper), spin_(spin) {
  rings_.reserve(static_cast<std::size_t>(control_.world_size()));
  for (int rank = 0; rank < control_.world_size(); ++rank) {
    Channel& channel = control_.channel(rank);
    rings_.emplace_back(channel.tail, channel.head, control_.slots(rank));
  }
}

void Link::retire_lost_rank(int rank, base::TimelineValue end) noexcept {
  Channel& channel = control_.channel(rank);
  base::drop_pending_records(channel.tail, channel.head, ring(rank).published());
  channel.timeline.take_over(end);
  control_.doorbell().clear_for_dead_rank(rank);
  base::store_seq_cst(control_.rank_was_lost(), 1u);
}

std::span<const LinkKind> link_kinds() { return kKinds; }

base::Result<const LinkKind*> find_link(std::string_view name) {
  std::vector<std::string_view> names;
  for (const LinkKind& kind : kKinds) {
    if (kind.name == name) return &kind;
    names.push_back(kind.name);
  }
  return base::unexpected_failure(ErrorCode::invalid_argument,
                                  "unknown link '{}'; this build has: {}", name,
                                  fmt::join(names, ", "));
}

base::SpinPolicy default_spin(int world_size, std::int64_t spin_ns) {
  const unsigned cores = std::thread::hardware_concurrency();
  return {.spin_ns = spin_ns, .yield = static_cast<unsigned>(world_size) + 1 > cores};
}

}  // namespace rankcast::link
