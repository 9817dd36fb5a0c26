// The link contract: how the host reaches its ranks. A link carries 64-byte records and gives
// memory that both sides see; it knows no tensors, frames or runs.
//
// Host and ranks meet in shared memory of one layout (link/control.h), whatever the link: what
// differs is who maps it and how a rank is started, watched and stopped. The path of a dispatch is
// the same code on every link and not virtual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/keeper_signal.h"
#include "base/rank_set.h"
#include "base/spin.h"
#include "base/status.h"
#include "link/control.h"
#include "link/rank_port.h"

namespace rankcast::link {

/// What a link is opened with.
struct LinkOptions {
  int world_size = 1;                // 1 to base::kMaxRanks
  std::uint32_t ring_capacity = 16;  // records a rank; a power of two
  std::uint64_t shared_bytes = 0;    // of memory that host and ranks share for their own records
  base::SpinPolicy spin;
};

/// What a rank runs, in its own thread or process: reports through its port, then takes records
/// until it is told to stop. Must not throw. On a link whose ranks are other processes it is the
/// main function of theirs that stands for it.
using RankMain = std::function<void(RankPort& port)>;

/// The host's end. `start` and `stop` are called by one thread; segments and rings are used under
/// the mesh's mutex; the rest is thread-safe.
class Link {
 public:
  virtual ~Link() = default;

  virtual std::string_view name() const noexcept = 0;
  /// True where ranks see the host's addresses.
  virtual bool shares_host_memory() const noexcept = 0;

  /// Starts all ranks and waits until each has reported. A failure names the rank: what it
  /// reported, or `deadline_exceeded` for one that said nothing; the caller then stops those that
  /// run.
  virtual base::Status start(RankMain rank_main, base::Deadline deadline) = 0;

  /// Waits until every rank has ended, after each was given a record that tells it to. Returns
  /// those that have not by the deadline; what they use stays alive for as long as they do.
  virtual std::vector<int> stop(base::Deadline deadline) = 0;

  /// Adds memory that the host writes and the ranks can reach, zeroed, page-aligned; returns its
  /// id. A rank may use the id once a record that was published after this call says so. Segments
  /// stay until the link is gone.
  virtual base::Result<std::uint32_t> add_segment(std::uint64_t bytes) = 0;
  /// The host's address of a segment.
  virtual std::byte* segment(std::uint32_t id) noexcept = 0;

  /// Gives all segments back: after every rank has ended.
  virtual void drop_segments() noexcept = 0;

  int world_size() const noexcept { return control_.world_size(); }
  Control& control() noexcept { return control_; }
  /// Of `LinkOptions::shared_bytes`.
  std::byte* shared() noexcept { return control_.shared(); }
  base::KeeperSignal& keeper() noexcept { return *keeper_; }
  base::SpinPolicy spin() const noexcept { return spin_; }

  /// The host's end of a rank's ring.
  HostRing& ring(int rank) noexcept { return rings_[static_cast<std::size_t>(rank)]; }

  const base::Timeline& timeline(int rank) const noexcept {
    return control_.channel(rank).timeline;
  }

 protected:
  Link(Control control, base::KeeperSignal& keeper, base::SpinPolicy spin);

 private:
  Control control_;             // of memory that the subclass owns
  base::KeeperSignal* keeper_;  // borrowed from the subclass, outlived because that owns this
  base::SpinPolicy spin_;
  std::vector<HostRing> rings_;
};

/// A kind of link that this build knows.
struct LinkKind {
  std::string_view name;
  base::Result<std::unique_ptr<Link>> (*create)(const LinkOptions& options);
};

std::span<const LinkKind> link_kinds();

/// `invalid_argument` for a name nobody has, listing those known.
base::Result<const LinkKind*> find_link(std::string_view name);

/// Spins, then sleeps; yields each turn when ranks and host together outnumber the cores.
base::SpinPolicy default_spin(int world_size, std::int64_t spin_ns);

}  // namespace rankcast::link
