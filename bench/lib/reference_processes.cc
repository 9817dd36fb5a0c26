// The ranks of a reference as processes: each is a command started as `reference-rank`, which gets
// the memory over a socket at descriptor 3 and ends when the socket's other end does.
#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/event_fd.h"
#include "base/fd.h"
#include "base/greeting.h"
#include "base/segment.h"
#include "bench/lib/kernel_library.h"
#include "bench/lib/reference_rank.h"
#include "bench/lib/reference_ranks.h"
#include "rankcast/error.h"

namespace rankcast::bench {

namespace {

constexpr int kSocket = 3;
constexpr int kHostGone = 3;  // exit status
constexpr std::int64_t kEndPatienceNs = 2'000'000'000;

/// The one message that a rank gets, with a descriptor of the memory; the path of the library and
/// the name of the kernel follow it.
struct ReferenceHello {
  static constexpr std::uint64_t kMagic = 0x6f6c'6c65'6865'6665;
  std::uint64_t magic = kMagic;
  std::uint64_t memory_bytes = 0;
  std::int32_t rank = 0;
  std::uint32_t library_bytes = 0;
};

class ProcessRanks final : public ReferenceRanks {
 public:
  explicit ProcessRanks(ReferenceProgram program) : program_(std::move(program)) {
    if (program_.command.empty()) program_.command = "/proc/self/exe";
  }
  ~ProcessRanks() override { join(); }

  const char* kind() const override { return "process"; }

  std::byte* allocate(std::size_t bytes) override {
    shared_ = base::value_or_throw(base::Segment::create_shared(bytes));
    return shared_.memory.base();
  }

  void start(const ReferenceMemory& memory) override {
    const std::vector<std::string> arguments{kReferenceRankCommand};
    for (std::size_t rank = 0; rank < memory.ranks(); ++rank) {
      auto [own, its] = base::value_or_throw(base::socket_pair());
      base::ChildProcess::Files files;
      files.third = its.get();
      base::ChildProcess process =
          base::value_or_throw(base::ChildProcess::spawn(program_.command, arguments, files));
      ranks_.push_back({std::move(own), std::move(process)});
      greet(ranks_.back(), static_cast<std::int32_t>(rank));
    }
  }

  void join() noexcept override {
    const base::Deadline deadline = base::Deadline::after(kEndPatienceNs);
    for (Rank& rank : ranks_) base::wait_readable(rank.process.pidfd(), deadline);
    ranks_.clear();
  }

  std::optional<std::string> find_lost() override {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      base::ChildProcess& process = ranks_[rank].process;
      process.reap();
      if (process.reaped()) return fmt::format("rank {} {}", rank, process.end());
    }
    return std::nullopt;
  }

 private:
  // Destroyed in this order: the process is killed if it still runs; the socket.
  struct Rank {
    base::Fd socket;
    base::ChildProcess process;
  };

  void greet(const Rank& one, std::int32_t rank) {
    ReferenceHello hello;
    hello.memory_bytes = shared_.memory.bytes();
    hello.rank = rank;
    hello.library_bytes = static_cast<std::uint32_t>(program_.library.size());
    const std::array fds{shared_.fd.get()};
    base::Status status =
        base::send_greeting(one.socket.get(), hello, program_.library + program_.kernel, fds);
    // One that has ended already is found by find_lost.
    if (!status.ok() && status.code != ErrorCode::rank_lost) base::throw_error(std::move(status));
  }

  ReferenceProgram program_;
  base::SharedSegment shared_;
  std::vector<Rank> ranks_;
};

/// Ends this process when the host has ended, in a thread of its own.
class HostWatch {
 public:
  explicit HostWatch(int socket)
      : stop_(base::value_or_throw(base::EventFd::create())), thread_([this, socket] {
          pthread_setname_np(pthread_self(), "reference-watch");
          std::array<pollfd, 2> watched{pollfd{socket, POLLIN, 0}, pollfd{stop_.fd(), POLLIN, 0}};
          for (;;) {
            poll(watched.data(), watched.size(), -1);
            if (watched[1].revents != 0) return;
            if (watched[0].revents != 0) _exit(kHostGone);
          }
        }) {}
  ~HostWatch() {
    stop_.notify();
    thread_.join();
  }
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

 private:
  base::EventFd stop_;
  std::thread thread_;
};

[[noreturn]] void refuse_host() {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is started by bench dispatch with link process, never by hand",
                          kReferenceRankCommand));
}

}  // namespace

std::unique_ptr<ReferenceRanks> process_ranks(ReferenceProgram program) {
  return std::make_unique<ProcessRanks>(std::move(program));
}

void run_reference_process() {
  const auto greeting = base::receive_greeting<ReferenceHello>(kSocket, 1);
  if (!greeting || greeting->header.library_bytes > greeting->text.size()) refuse_host();
  const ReferenceHello& hello = greeting->header;
  const HostWatch watch(kSocket);
  const base::Segment segment = base::value_or_throw(
      base::Segment::map_shared(greeting->fds.front().get(), hello.memory_bytes, true));
  const std::optional<ReferenceMemory> memory =
      ReferenceMemory::attach(segment.base(), segment.bytes());
  if (!memory || hello.rank < 0 || static_cast<std::size_t>(hello.rank) >= memory->ranks()) {
    refuse_host();
  }

  const std::string library = greeting->text.substr(0, hello.library_bytes);
  const std::string name = greeting->text.substr(hello.library_bytes);
  std::optional<KernelLibrary> kernels;
  const rankcast_kernel* kernel = nullptr;
  try {
    if (!name.empty()) {
      kernels = KernelLibrary::open(library);
      kernel = &kernels->find(name);
    }
  } catch (const Error& error) {
    refuse_reference_rank(*memory, hello.rank, error.what());
    return;
  }
  run_reference_rank(*memory, hello.rank, kernel);
}

}  // namespace rankcast::bench
