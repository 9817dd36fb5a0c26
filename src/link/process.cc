// Ranks as processes (PROTOCOL P13): each runs the program rankcast-rank, which attaches the
// control memory and gets the segments that it may reach over a socket of its own.
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/child_process.h"
#include "base/epoll.h"
#include "base/fault_point.h"
#include "base/fd.h"
#include "base/greeting.h"
#include "base/mutex.h"
#include "base/segment.h"
#include "base/untrusted.h"
#include "link/kinds.h"
#include "link/process_messages.h"
#include "link/rank_output.h"
#include "link/rank_program.h"
#include "link/segments.h"
#include "rankcast/version.h"

namespace rankcast::link {
namespace {

using base::Deadline;
using base::Fd;
using base::Result;
using base::Status;

constexpr std::int64_t kGreetPatienceNs = 1'000'000'000;  // for the system to have room for it
constexpr int kRequestsAtOnce = 16;                       // of one rank; the next look takes more
constexpr std::int64_t kLookNs = 5'000'000;               // between looks at a rank that starts

/// One rank as the host knows it.
struct Rank {
  /// told_to_end: by stop or kill; its end is no loss. lost: take_lost has told.
  enum class Phase { none, starting, running, told_to_end, lost };

  base::ChildProcess process;
  Fd socket;
  RankOutput output;
  Phase phase = Phase::none;
  bool watched = false;             // its end is an event
  bool heard = false;               // what it says is one
  bool greeted = false;             // it may be sent segments
  std::uint32_t segments_sent = 0;  // of all ids those below this, where it may reach them

  bool alive() const noexcept { return process.pidfd() >= 0 && !process.reaped(); }
  /// How it ended, and what it said.
  std::string describe_end() const { return process.end() + output.describe(); }
};

struct HostSegment {
  base::SharedSegment segment;
  int owner;
  Access access;
  base::RankSet readers = {};  // of another rank's tensors
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Threads: `mutex_` guards ranks and segments. It is taken inside of the mesh's mutex
/// (add_segment), never the other way round, and no process is waited for while it is held: a
/// segment that a rank's socket has no room for stays behind until the rank asks for it.
class ProcessLink final : public Link {
 public:
  ProcessLink(base::SharedSegment memory, Control control, base::KeeperSignal keeper,
              const LinkOptions& options, std::string program, Fd host, base::Epoll events)
      : Link(control, keeper_, options.spin),
        memory_(std::move(memory)),
        keeper_(std::move(keeper)),
        program_(std::move(program)),
        host_(std::move(host)),
        events_(std::move(events)),
        ranks_(static_cast<std::size_t>(options.world_size)) {}

  std::string_view name() const noexcept override { return "process"; }
  bool shares_host_memory() const noexcept override { return false; }
  bool can_restart_ranks() const noexcept override { return true; }
  int process_of(int rank) override {
    base::MutexLock lock(mutex_);
    return at(rank).process.pid();
  }
  int events_fd() const noexcept override { return events_.fd(); }

  Status start(RankStart start, Deadline deadline) override {
    start_ = std::move(start);
    for (int rank = 0; rank < world_size(); ++rank) {
      if (Status status = launch(rank); !status.ok()) return status;
    }
    return wait_for_reports(0, world_size(), deadline);
  }

  Status restart(int rank, Deadline deadline) override {
    Channel& channel = control().channel(rank);
    channel.error_code = 0;
    channel.report[0] = '\0';
    base::store_seq_cst(channel.state, RankState::starting);
    Status status = launch(rank);
    if (status.ok()) status = wait_for_reports(rank, rank + 1, deadline);
    if (!status.ok()) kill(rank);
    return status;
  }

  void expect_ends() override {
    for (int rank = 0; rank < world_size(); ++rank) expect_end(rank);
  }

  std::vector<int> stop(Deadline deadline) override {
    expect_ends();
    for (int rank = 0; rank < world_size(); ++rank) {
      // One that never reported takes no record that would tell it to end.
      const bool reported =
          base::load_seq_cst(control().channel(rank).state) != RankState::starting;
      if (!wait_for_end(rank, reported ? deadline : Deadline::at(0))) kill(rank);
    }
    return {};
  }

  std::string kill(int rank) override {
    const int pidfd = expect_end(rank);
    if (pidfd >= 0) {
      {
        base::MutexLock lock(mutex_);
        at(rank).process.kill();
      }
      base::wait_readable(pidfd, Deadline::never());
    }
    look();
    base::MutexLock lock(mutex_);
    return at(rank).describe_end();
  }

  std::vector<LostRank> take_lost() override {
    look();
    std::vector<LostRank> lost;
    base::MutexLock lock(mutex_);
    for (int rank = 0; rank < world_size(); ++rank) {
      Rank& one = at(rank);
      if (one.phase != Rank::Phase::running || !one.process.reaped()) continue;
      unwatch(one);
      one.phase = Rank::Phase::lost;
      lost.push_back({rank, one.describe_end()});
    }
    return lost;
  }

  Result<std::uint32_t> add_segment(std::uint64_t bytes, int owner, Access access) override {
    auto segment = base::Segment::create_shared(bytes);
    if (!segment) return tl::unexpected(std::move(segment).error());
    base::MutexLock lock(mutex_);
    if (segments_.size() == kMaxSegments) {
      return base::unexpected_failure(ErrorCode::out_of_memory,
                                      "all {} segments of the mesh are in use", kMaxSegments);
    }
    const auto id = static_cast<std::uint32_t>(segments_.size());
    directory_.set(id, {segment->memory.base(), segment->memory.bytes()});
    segments_.push_back({std::move(*segment), owner, access});
    for (int rank = 0; rank < world_size(); ++rank) send_segments_locked(rank);
    return id;
  }

  void let_read(std::uint32_t id, int reader) override {
    base::MutexLock lock(mutex_);
    if (reaches(reader, id)) return;
    segments_[id].readers.insert(reader);
    send_segments_locked(reader);
    if (id < at(reader).segments_sent) send_segment_locked(reader, id);
  }

  std::byte* segment(std::uint32_t id) noexcept override { return directory_.at(id).base; }

  void drop_segments() noexcept override {
    base::MutexLock lock(mutex_);
    segments_.clear();
    for (Rank& one : ranks_) {
      unhear(one);
      one.socket.reset();
      one.output.close(events_);
    }
  }

 private:
  Rank& at(int rank) RC_REQUIRES(mutex_) { return ranks_[static_cast<std::size_t>(rank)]; }

  // Starts the process, greets it and sends it what it may reach.
  Status launch(int rank) {
    Status status = RANKCAST_FAULT_POINT("link.start_process")
                        ? base::failure(ErrorCode::out_of_memory, "made to fail at the start")
                        : spawn(rank);
    if (!status.ok()) {
      status.text = fmt::format("rank {}: {}", rank, status.text);
      return std::move(status).with_rank(rank);
    }
    return greet(rank, start_.hello ? start_.hello(rank) : std::string());
  }

  Status spawn(int rank) {
    auto sockets = base::socket_pair();
    if (!sockets) return std::move(sockets).error();
    RankOutput output;
    RankOutput::Ends ends;
    if (Status status = output.open(events_, &ends); !status.ok()) return status;
    // For people who look at a list of processes.
    const std::array arguments{fmt::format("rank {} of {}", rank, world_size())};
    auto process = base::ChildProcess::spawn(program_, arguments,
                                             {.standard_output = ends.standard_output.get(),
                                              .standard_error = ends.standard_error.get(),
                                              .third = sockets->second.get()});
    if (!process) {
      output.close(events_);
      return std::move(process).error();
    }
    base::MutexLock lock(mutex_);
    Rank& one = at(rank);
    unhear(one);
    one.output.close(events_);
    one.output = std::move(output);
    one.process = std::move(*process);
    one.socket = std::move(sockets->first);
    one.phase = Rank::Phase::starting;
    one.greeted = false;
    one.segments_sent = 0;
    Status status = events_.add(one.process.pidfd());
    one.watched = status.ok();
    if (status.ok()) status = events_.add(one.socket.get());
    one.heard = status.ok();
    return status;
  }

  // Then it is sent what it may reach. Nothing for a rank that has ended: its end is seen
  // elsewhere.
  Status greet(int rank, const std::string& text) {
    Hello hello;
    std::strncpy(hello.version, RANKCAST_VERSION_STRING, sizeof(hello.version) - 1);
    hello.rank = rank;
    hello.control_bytes = memory_.memory.bytes();
    hello.spin_ns = spin().spin_ns;
    hello.spin_yields = spin().yield ? 1 : 0;
    const std::array fds{memory_.fd.get(), keeper_.fd(), host_.get()};
    const Deadline deadline = Deadline::after(kGreetPatienceNs);
    for (;;) {
      Status status;
      {
        base::MutexLock lock(mutex_);
        status = base::send_greeting(at(rank).socket.get(), hello, text, fds);
        at(rank).greeted = status.ok();
        send_segments_locked(rank);
      }
      if (status.ok() || status.code == ErrorCode::rank_lost) return {};
      if (status.code != ErrorCode::out_of_memory || deadline.passed()) {
        status.text = fmt::format("rank {} cannot be greeted: {}", rank, status.text);
        return std::move(status).with_rank(rank);
      }
      usleep(100);
    }
  }

  bool reaches(int rank, std::uint32_t id) const RC_REQUIRES(mutex_) {
    if (id >= segments_.size()) return false;
    const HostSegment& host = segments_[id];
    return host.access == Access::all_write || host.owner == rank || host.readers.contains(rank);
  }

  // What the rank may reach and was not sent, as far as its socket has room.
  void send_segments_locked(int rank) RC_REQUIRES(mutex_) {
    Rank& one = at(rank);
    if (!one.greeted || !one.alive()) return;
    for (; one.segments_sent < segments_.size(); ++one.segments_sent) {
      if (reaches(rank, one.segments_sent) && !send_segment_locked(rank, one.segments_sent)) return;
    }
  }

  // False when there was no room.
  bool send_segment_locked(int rank, std::uint32_t id) RC_REQUIRES(mutex_) {
    const HostSegment& host = segments_[id];
    SegmentNotice notice;
    notice.bytes = host.segment.memory.bytes();
    notice.id = id;
    const bool own = host.access == Access::owner_writes && host.owner == rank;
    notice.writable = host.access == Access::all_write || own ? 1 : 0;
    const std::array fds{host.segment.fd.get()};
    return base::send_message(at(rank).socket.get(), bytes_of(notice), fds).ok();
  }

  // What the rank asks for. An answer for which there is no room it asks for again.
  void answer_locked(int rank) RC_REQUIRES(mutex_) {
    Rank& one = at(rank);
    for (int i = 0; i < kRequestsAtOnce && one.heard; ++i) {
      const auto message = base::receive_message(one.socket.get(), Deadline::at(0));
      if (!message && message.error().code == ErrorCode::deadline_exceeded) return;
      SegmentRequest request;
      if (!message || message->bytes.size() != sizeof(request)) {
        unhear(one);  // it has ended, or talks nonsense
        return;
      }
      std::memcpy(&request, message->bytes.data(), sizeof(request));
      if (request.magic != SegmentRequest::kMagic) continue;
      send_segments_locked(rank);
      if (!reaches(rank, request.id)) {
        base::send_message(one.socket.get(), bytes_of(request), {});
      } else if (request.id < one.segments_sent) {
        send_segment_locked(rank, request.id);  // again, where it was
      }
    }
  }

  // Of the ranks from `first` to before `end`, which were launched.
  Status wait_for_reports(int first, int end, Deadline deadline) {
    const auto all_reported = [&]() noexcept {
      for (int rank = first; rank < end; ++rank) {
        if (base::load_seq_cst(control().channel(rank).state) == RankState::starting) return false;
      }
      return true;
    };
    for (;;) {
      // A report wakes this thread; a process that ended is seen at the next look.
      const Deadline next_look = Deadline::after(kLookNs);
      const bool last = !deadline.is_never() && deadline.ns() <= next_look.ns();
      control().waiters().wait(all_reported, base::SpinPolicy::none(), last ? deadline : next_look);
      look();
      int silent = -1;
      base::MutexLock lock(mutex_);
      for (int rank = first; rank < end; ++rank) {
        if (Status status = look_at_start_locked(rank); !status.ok())
          return std::move(status).with_rank(rank);
        if (silent < 0 && at(rank).phase == Rank::Phase::starting) silent = rank;
      }
      if (silent < 0) return {};
      if (last) {
        return base::failure(ErrorCode::deadline_exceeded,
                             "rank {} did not report in time{}; raise "
                             "MeshOptions::startup_timeout, or try whether \"{}\" is the program "
                             "of process ranks of this installation",
                             silent, at(silent).output.describe(), program_)
            .with_rank(silent);
      }
    }
  }

  // What a rank that starts has come to. Its process was looked at before its lines are: what one
  // that ended has written is there.
  Status look_at_start_locked(int rank) RC_REQUIRES(mutex_) {
    Rank& one = at(rank);
    const Channel& channel = control().channel(rank);
    switch (base::load_seq_cst(channel.state)) {
      case RankState::ready:
        one.phase = Rank::Phase::running;
        return {};
      case RankState::failed:
        if (base::error_code_of(channel.error_code)) return report_of(channel, rank);
        break;
      case RankState::starting:
        if (!one.process.reaped()) return {};
        return base::failure(ErrorCode::rank_lost, "rank {} did not get ready: it {}", rank,
                             one.describe_end());
    }
    return base::failure(ErrorCode::internal,
                         "rank {} wrote nonsense into the control memory (state {}, error {}){}; "
                         "is \"{}\" of this build?",
                         rank, static_cast<std::uint32_t>(base::load_seq_cst(channel.state)),
                         channel.error_code, one.output.describe(), program_);
  }

  /// From here on its end is no loss. Returns what becomes readable when it ends; -1 if it has.
  int expect_end(int rank) {
    base::MutexLock lock(mutex_);
    Rank& one = at(rank);
    one.phase = Rank::Phase::told_to_end;
    if (one.alive()) return one.process.pidfd();
    unwatch(one);
    return -1;
  }

  // Of a rank that was told to; what it prints meanwhile is read. Its own descriptor tells its end
  // also when another thread has seen the event and reaped it.
  bool wait_for_end(int rank, Deadline deadline) {
    for (;;) {
      look();
      int pidfd = -1;
      {
        base::MutexLock lock(mutex_);
        if (!at(rank).alive()) return true;
        pidfd = at(rank).process.pidfd();
      }
      if (!base::wait_either_readable(pidfd, events_.fd(), deadline)) return false;
    }
  }

  // Its end is an event until somebody has been told of it.
  void unwatch(Rank& one) RC_REQUIRES(mutex_) {
    if (std::exchange(one.watched, false)) events_.remove(one.process.pidfd());
  }

  // What the rank says is no event any more.
  void unhear(Rank& one) RC_REQUIRES(mutex_) {
    if (std::exchange(one.heard, false)) events_.remove(one.socket.get());
  }

  // Takes what ranks printed, answers what they ask, and reaps those that have ended.
  void look() {
    std::vector<Printed> printed;
    {
      base::MutexLock lock(mutex_);
      for (int rank = 0; rank < world_size(); ++rank) {
        Rank& one = at(rank);
        one.process.reap();
        answer_locked(rank);
        if (one.phase == Rank::Phase::told_to_end && !one.alive()) unwatch(one);
        one.output.take(events_, &printed);
      }
    }
    pass_on(printed);
  }

  base::SharedSegment memory_;  // of the control memory
  base::KeeperSignal keeper_;
  const std::string program_;
  const Fd host_;             // a pidfd of this process
  const base::Epoll events_;  // of what ranks print, and of their ends
  RankStart start_;
  SegmentDirectory directory_;
  base::Mutex mutex_;
  std::vector<HostSegment> segments_ RC_GUARDED_BY(mutex_);  // by id
  std::vector<Rank> ranks_ RC_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Link>> create_process_link(const LinkOptions& options) {
  auto program = find_rank_program(options.rank_program);
  if (!program) return tl::unexpected(std::move(program).error());
  auto memory = base::Segment::create_shared(
      Control::bytes_needed(options.world_size, options.ring_capacity, options.shared_bytes));
  if (!memory) return tl::unexpected(std::move(memory).error());
  auto event = base::EventFd::create();
  if (!event) return tl::unexpected(std::move(event).error());
  auto host = base::open_pidfd(getpid());
  if (!host) return tl::unexpected(std::move(host).error());
  auto events = base::Epoll::create();
  if (!events) return tl::unexpected(std::move(events).error());
  const Control control = Control::create(memory->memory.base(), options.world_size,
                                          options.ring_capacity, options.shared_bytes);
  base::KeeperSignal keeper(control.keeper_word(), std::move(*event));
  return std::make_unique<ProcessLink>(std::move(*memory), control, std::move(keeper), options,
                                       std::move(*program), std::move(*host), std::move(*events));
}

}  // namespace rankcast::link
