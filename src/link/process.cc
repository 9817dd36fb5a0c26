// Ranks as processes (PROTOCOL P13): each runs the program rankcast-rank, which attaches the
// control memory and gets the segments that it may reach over a socket of its own.
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/child_process.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/segment.h"
#include "link/kinds.h"
#include "link/process_words.h"
#include "link/rank_program.h"
#include "link/segments.h"
#include "rankcast/version.h"

namespace rankcast::link {
namespace {

using base::Deadline;
using base::Fd;
using base::Result;
using base::Status;

constexpr std::int64_t kSendPatienceNs = 1'000'000'000;  // for a rank to take what it was sent
constexpr std::int64_t kLookNs = 5'000'000;              // between looks at a rank that starts
constexpr std::size_t kKeptOutput = 2048;                // of what a rank printed last
constexpr std::size_t kShownOutput = 300;

/// One rank as the host knows it.
struct Rank {
  /// told_to_end: by stop or kill; its end is no loss.
  enum class Phase { none, starting, running, told_to_end };

  base::ChildProcess process;
  Fd socket;
  Fd output;  // of its standard error
  std::string printed;
  Phase phase = Phase::none;
  bool told_lost = false;

  bool alive() const noexcept { return process.pidfd() >= 0 && !process.reaped(); }
  /// How it ended, and what it said.
  std::string describe_end() const { return process.end() + describe_output(); }
  std::string describe_output() const {
    if (printed.empty()) return {};
    std::string_view last = printed;
    while (last.ends_with('\n')) last.remove_suffix(1);
    if (last.size() > kShownOutput) last.remove_prefix(last.size() - kShownOutput);
    return fmt::format("; it printed last: {}", last);
  }
};

struct HostSegment {
  base::SharedSegment segment;
  int owner;
  Access access;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Threads: `mutex_` guards ranks and segments. It is taken inside of the mesh's mutex
/// (add_segment), never the other way round, and no process is waited for while it is held.
class ProcessLink final : public Link {
 public:
  ProcessLink(base::SharedSegment memory, Control control, base::KeeperSignal keeper,
              const LinkOptions& options, std::string program, Fd host, Fd events)
      : Link(control, keeper_, options.spin),
        memory_(std::move(memory)),
        keeper_(std::move(keeper)),
        program_(std::move(program)),
        host_(std::move(host)),
        events_(std::move(events)),
        ranks_(static_cast<std::size_t>(options.world_size)) {}

  std::string_view name() const noexcept override { return "process"; }
  bool shares_host_memory() const noexcept override { return false; }
  bool can_lose_ranks() const noexcept override { return true; }
  int process_of(int rank) override {
    base::MutexLock lock(mutex_);
    return at(rank).process.pid();
  }
  int events_fd() const noexcept override { return events_.get(); }

  Status start(RankStart start, Deadline deadline) override {
    start_ = std::move(start);
    for (int rank = 0; rank < world_size(); ++rank) {
      if (Status status = launch(rank); !status.ok()) return status;
    }
    for (int rank = 0; rank < world_size(); ++rank) {
      if (Status status = wait_for_report(rank, deadline); !status.ok()) return status;
    }
    return {};
  }

  Status restart(int rank, Deadline deadline) override {
    Channel& channel = control().channel(rank);
    channel.error_code = 0;
    channel.report[0] = '\0';
    base::store_seq_cst(channel.state, RankState::starting);
    Status status = launch(rank);
    if (status.ok()) status = wait_for_report(rank, deadline);
    if (!status.ok()) kill(rank);
    return status;
  }

  std::vector<int> stop(Deadline deadline) override {
    for (int rank = 0; rank < world_size(); ++rank) {
      const int pidfd = tell_to_end(rank);
      if (pidfd >= 0 && !base::wait_readable(pidfd, deadline)) kill(rank);
    }
    look();
    return {};
  }

  std::string kill(int rank) override {
    const int pidfd = tell_to_end(rank);
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
      if (one.phase != Rank::Phase::running || !one.process.reaped() || one.told_lost) continue;
      // A rank that took the record which tells it to stop has ended before stop waits for it.
      if (base::load_seq_cst(control().channel(rank).state) == RankState::stopped) continue;
      one.told_lost = true;
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
    for (int rank = 0; rank < world_size(); ++rank) {
      if (Status status = send_segment_locked(rank, id); !status.ok())
        return tl::unexpected(std::move(status));
    }
    return id;
  }

  std::byte* segment(std::uint32_t id) noexcept override { return directory_.at(id).base; }

  void drop_segments() noexcept override {
    base::MutexLock lock(mutex_);
    segments_.clear();
    for (Rank& one : ranks_) {
      one.socket.reset();
      one.output.reset();
    }
  }

 private:
  Rank& at(int rank) RC_REQUIRES(mutex_) { return ranks_[static_cast<std::size_t>(rank)]; }

  // Starts the process, greets it and sends it what it may reach.
  Status launch(int rank) {
    auto sockets = base::socket_pair();
    if (!sockets) return std::move(sockets).error().with_rank(rank);
    auto pipe = base::output_pipe();
    if (!pipe) return std::move(pipe).error().with_rank(rank);
    auto process =
        base::ChildProcess::spawn(program_, {}, {pipe->second.get(), sockets->second.get()});
    if (!process) return std::move(process).error().with_rank(rank);
    const std::string text = start_.hello ? start_.hello(rank) : std::string();

    base::MutexLock lock(mutex_);
    Rank& one = at(rank);
    watch(process->pidfd());
    watch(pipe->first.get());
    one.process = std::move(*process);
    one.socket = std::move(sockets->first);
    one.output = std::move(pipe->first);
    one.printed.clear();
    one.phase = Rank::Phase::starting;
    one.told_lost = false;
    Status status = greet_locked(rank, text);
    for (std::uint32_t id = 0; id < segments_.size() && status.ok(); ++id) {
      status = send_segment_locked(rank, id);
    }
    return std::move(status).with_rank(rank);
  }

  Status greet_locked(int rank, const std::string& text) RC_REQUIRES(mutex_) {
    Hello hello;
    std::strncpy(hello.version, RANKCAST_VERSION_STRING, sizeof(hello.version) - 1);
    hello.rank = rank;
    hello.text_bytes = static_cast<std::uint32_t>(text.size());
    hello.control_bytes = memory_.memory.bytes();
    hello.spin_ns = spin().spin_ns;
    hello.spin_yields = spin().yield ? 1 : 0;
    std::vector<std::byte> bytes(sizeof(hello) + text.size());
    std::memcpy(bytes.data(), &hello, sizeof(hello));
    std::memcpy(bytes.data() + sizeof(hello), text.data(), text.size());
    const std::array fds{memory_.fd.get(), keeper_.fd(), host_.get()};
    return send_locked(rank, bytes, fds);
  }

  // Nothing for a rank that may not reach the segment, or that is not there: a successor gets it.
  Status send_segment_locked(int rank, std::uint32_t id) RC_REQUIRES(mutex_) {
    const HostSegment& host = segments_[id];
    if (host.access != Access::all_write && host.owner != rank) return {};
    if (!at(rank).alive()) return {};
    SegmentNotice notice;
    notice.bytes = host.segment.memory.bytes();
    notice.id = id;
    notice.writable = host.access == Access::owner_reads ? 0 : 1;
    const std::array fds{host.segment.fd.get()};
    return send_locked(rank, bytes_of(notice), fds);
  }

  // A rank that is gone is not told: its end is noticed elsewhere.
  Status send_locked(int rank, std::span<const std::byte> bytes, std::span<const int> fds)
      RC_REQUIRES(mutex_) {
    const Deadline deadline = Deadline::after(kSendPatienceNs);
    for (;;) {
      Status status = base::send_message(at(rank).socket.get(), bytes, fds);
      if (status.ok() || status.code == ErrorCode::rank_lost) return {};
      if (status.code != ErrorCode::out_of_memory || deadline.passed()) {
        status.text = fmt::format("rank {} does not take what it is sent: {}", rank, status.text);
        return std::move(status).with_rank(rank);
      }
      usleep(100);
    }
  }

  Status wait_for_report(int rank, Deadline deadline) {
    const Channel& channel = control().channel(rank);
    const auto reported = [&]() noexcept {
      return base::load_seq_cst(channel.state) != RankState::starting;
    };
    for (;;) {
      const Deadline next_look = Deadline::after(kLookNs);
      const bool last = !deadline.is_never() && deadline.ns() <= next_look.ns();
      const bool ready =
          control().waiters().wait(reported, base::SpinPolicy::none(),
                                   last ? deadline : next_look) == base::WaitResult::ready;
      look();
      base::MutexLock lock(mutex_);
      Rank& one = at(rank);
      if (ready && base::load_seq_cst(channel.state) == RankState::ready) {
        one.phase = Rank::Phase::running;
        return {};
      }
      if (ready) {
        const std::size_t length = strnlen(channel.report, kReportBytes);
        return base::failure(static_cast<ErrorCode>(channel.error_code), "rank {}: {}", rank,
                             std::string_view(channel.report, length))
            .with_rank(rank);
      }
      if (one.process.reaped()) {
        return base::failure(ErrorCode::rank_lost, "rank {} {} before it was ready", rank,
                             one.describe_end())
            .with_rank(rank);
      }
      if (last) {
        return base::failure(ErrorCode::deadline_exceeded,
                             "rank {} did not report within the startup timeout{}; raise "
                             "MeshOptions::startup_timeout",
                             rank, one.describe_output())
            .with_rank(rank);
      }
    }
  }

  /// From here on its end is no loss. Returns what becomes readable when it ends; -1 if it has.
  int tell_to_end(int rank) {
    base::MutexLock lock(mutex_);
    Rank& one = at(rank);
    one.phase = Rank::Phase::told_to_end;
    return one.alive() ? one.process.pidfd() : -1;
  }

  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  void unwatch(int fd) { epoll_ctl(events_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  // Reads what ranks printed and reaps those that have ended.
  void look() {
    base::MutexLock lock(mutex_);
    for (Rank& one : ranks_) {
      const int pidfd = one.process.pidfd();
      if (one.process.reap()) unwatch(pidfd);
      read_output(one);
    }
  }

  // Passes it on, so that it is seen as if it were this process's.
  void read_output(Rank& one) {
    std::array<char, 4096> buffer{};
    while (!one.output.empty()) {
      const ssize_t count = read(one.output.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        unwatch(one.output.get());
        one.output.reset();
        return;
      }
      const std::string_view text(buffer.data(), static_cast<std::size_t>(count));
      if (write(STDERR_FILENO, text.data(), text.size()) < 0) {
        // Nobody reads this process's errors: they are kept all the same.
      }
      one.printed += text;
      if (one.printed.size() > 2 * kKeptOutput) {
        one.printed.erase(0, one.printed.size() - kKeptOutput);
      }
    }
  }

  base::SharedSegment memory_;  // of the control memory
  base::KeeperSignal keeper_;
  const std::string program_;
  const Fd host_;    // a pidfd of this process
  const Fd events_;  // an epoll of what ranks print, and of their ends
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
  Fd events(epoll_create1(EPOLL_CLOEXEC));
  if (events.empty()) {
    return base::unexpected_failure(ErrorCode::internal, "epoll_create1: {}", std::strerror(errno));
  }
  const Control control = Control::create(memory->memory.base(), options.world_size,
                                          options.ring_capacity, options.shared_bytes);
  base::KeeperSignal keeper(control.keeper_word(), std::move(*event));
  return std::make_unique<ProcessLink>(std::move(*memory), control, std::move(keeper), options,
                                       std::move(*program), std::move(*host), std::move(events));
}

}  // namespace rankcast::link
