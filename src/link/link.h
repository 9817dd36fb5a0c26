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
  std::string rank_program;  // link process: a path; empty: looked for (link/rank_program.h)
};

/// What a rank runs, in its own thread or process: reports through its port, then takes records
/// until it is told to stop. A rank whose main function returns otherwise is lost. Must not throw.
/// On a link whose ranks are other processes it is the main function of theirs that stands for it.
using RankMain = std::function<void(RankPort& port)>;

/// How ranks are started. Which of the two a link uses is its own affair.
struct RankStart {
  RankMain main;  // in a thread of this process
  /// What a rank in another process is told first, by the program that runs it: a text that host
  /// and rank understand and the link does not. Asked at each start of a rank; may throw
  /// std::bad_alloc alone.
  std::function<std::string(int rank)> hello;
};

/// Who reaches a segment beside the host, which writes all of them.
enum class Access : std::uint8_t {
  owner_writes,  // its owner alone: memory of a rank's tensors; others read it once let_read says
                 // so
  owner_reads,   // its owner alone, for reading: frames and side blocks
  all_write,     // every rank: what ranks tell each other and the host about runs
};

/// A rank that has ended though the host had not told it to.
struct LostRank {
  int rank = 0;
  /// How, and what it printed last: "was killed by signal 9 (Killed); it printed last: ...".
  std::string end;
};

/// The host's end. `start` and `stop` are called by one thread; segments and rings are used under
/// the mesh's mutex; the rest is thread-safe.
class Link {
 public:
  virtual ~Link() = default;

  virtual std::string_view name() const noexcept = 0;
  /// True where ranks see the host's addresses.
  virtual bool shares_host_memory() const noexcept = 0;

  /// Starts all ranks and waits until each has reported. A failure names the rank: what it
  /// reported, how it ended, or `deadline_exceeded` for one that said nothing, and what it printed
  /// last if it has an output of its own; the caller then stops those that run.
  virtual base::Status start(RankStart start, base::Deadline deadline) = 0;

  /// From here on the end of a rank is no loss. Before the records that tell ranks to end are
  /// published: whether a rank was told to is the host's to know, never the rank's to say.
  virtual void expect_ends() = 0;

  /// Waits until every rank has ended, after each was given a record that tells it to. Returns
  /// those that have not by the deadline; what they use stays alive for as long as they do. A link
  /// that can kill kills them instead, and returns none.
  virtual std::vector<int> stop(base::Deadline deadline) = 0;

  /// Id of the process in which a rank runs, or ran last.
  virtual int process_of(int rank) = 0;

  // ---- Ranks that end alone (PROTOCOL P6). The keeper's thread calls take_lost; kill and restart
  // are called by one thread at a time, outside of the mesh's mutex.

  /// For the keeper's `poll`: readable when take_lost has something to do. The same descriptor for
  /// the life of the link.
  virtual int events_fd() const noexcept = 0;
  /// Does what came: passes on what ranks print, sends them what they ask for, and answers which
  /// ranks have ended. Each is reaped, told once, and touches no memory any more.
  virtual std::vector<LostRank> take_lost() = 0;

  /// True where ranks are processes: one can be killed, and have a successor.
  virtual bool can_restart_ranks() const noexcept { return false; }
  /// Ends a rank that may still live, waits until it is gone, and says how it ended; take_lost does
  /// not tell it again.
  virtual std::string kill(int /*rank*/) { return {}; }
  /// Starts a successor of a rank that is gone and waits until it has reported. It knows no segment
  /// but what `hello` and later records tell, and takes records from the head of its ring on, which
  /// the caller has set, as it has the timeline. A failure is as start's, and leaves nothing
  /// running.
  virtual base::Status restart(int /*rank*/, base::Deadline /*deadline*/) {
    return base::failure(ErrorCode::unsupported, "link '{}' cannot restart a rank", name());
  }

  /// Adds memory that the host writes, zeroed, page-aligned; returns its id. `owner` is a rank, or
  /// -1 with Access::all_write. A rank may use the id once a record that was published after this
  /// call says so. Waits for no rank. Segments stay until the link is gone; a successor reaches its
  /// predecessor's.
  virtual base::Result<std::uint32_t> add_segment(std::uint64_t bytes, int owner,
                                                  Access access) = 0;
  /// Makes a segment of another rank's tensors readable for `reader`, from the next record on.
  /// Costs nothing the second time. Waits for no rank.
  virtual void let_read(std::uint32_t id, int reader) = 0;
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

  /// The host's part for a rank that is gone, as P6 has it: its ring is empty, whatever it wrote
  /// there, its timeline is at `end`, where its last record would have brought it, and it sleeps
  /// nowhere. Under the mesh's mutex.
  void retire_lost_rank(int rank, base::TimelineValue end) noexcept;

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
