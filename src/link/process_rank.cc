#include "link/process_rank.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/event_fd.h"
#include "base/fd.h"
#include "base/greeting.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/segment.h"
#include "link/process_messages.h"
#include "link/segments.h"
#include "rankcast/version.h"

namespace rankcast::link {
namespace {

constexpr int kBadHost = 2;
constexpr int kHostGone = 3;
// What was asked for may have been lost: the socket was full, or the system had no room.
constexpr std::chrono::milliseconds kAskAgain{20};

/// The segments that the host has sent. Both threads of the process take them off the socket: the
/// rank's when it meets an id that it does not know, the watcher's as they come, so that the socket
/// does not fill while a kernel runs. An id that is not among them the rank's thread asks for, and
/// waits for the answer: the host waits for no rank, so it may not have sent all.
class ReceivedSegments final : public SegmentSource {
 public:
  explicit ReceivedSegments(int socket)
      : socket_(socket), entries_(std::make_unique<std::array<Entry, kMaxSegments>>()) {}

  std::byte* segment(std::uint32_t id, std::uint64_t* bytes) noexcept override {
    *bytes = 0;
    if (id >= kMaxSegments) return nullptr;
    const Entry& entry = (*entries_)[id];
    std::byte* base = base::load_acquire(entry.base);  // pairs: received-segment
    if (base == nullptr) [[unlikely]] {
      ask_for(id);
      base = base::load_acquire(entry.base);  // pairs: received-segment
    }
    if (base != nullptr) *bytes = entry.bytes;
    return base;
  }

  /// Takes what is there. False at the end of the connection.
  bool receive() noexcept {
    base::MutexLock lock(mutex_);
    const bool open = receive_locked();
    changed_.notify_all();
    return open;
  }

 private:
  struct Entry {
    // Written by: whoever receives, under the mutex, once. Read by: the rank's thread.
    // Ordered by: release after `bytes`, acquire (pairs: received-segment).
    std::atomic<std::byte*> base{nullptr};
    std::uint64_t bytes = 0;
  };

  // False when nothing more will come: the connection has ended, or what came cannot be used, after
  // which the host would not answer for what it has sent.
  bool receive_locked() noexcept RC_REQUIRES(mutex_) {
    while (!ended_) {
      auto message = base::receive_message(socket_, base::Deadline::at(0));
      if (!message && message.error().code == ErrorCode::deadline_exceeded) return true;
      const base::Status status = message ? take_locked(*message) : message.error();
      if (!status.ok()) base::log_error("rank: {}", status.text);
      ended_ = !status.ok() || message->bytes.empty();
    }
    return false;
  }

  // Until the segment is there, or the host has said that there is none.
  void ask_for(std::uint32_t id) noexcept {
    base::MutexLock lock(mutex_);
    SegmentRequest request;
    request.id = id;
    request.number = ++requests_;
    while (receive_locked()) {
      // relaxed: written under the mutex, which is held
      if (base::load_relaxed((*entries_)[id].base) != nullptr) return;
      if (refused_ == request.number) return;
      base::send_message(socket_, std::as_bytes(std::span(&request, 1)), {});
      changed_.wait_for(lock, kAskAgain);
    }
  }

  base::Status take_locked(const base::Message& message) RC_REQUIRES(mutex_) {
    if (message.bytes.empty()) return {};
    SegmentRequest refused;
    if (message.bytes.size() == sizeof(refused) && message.fds.empty()) {
      std::memcpy(&refused, message.bytes.data(), sizeof(refused));
      if (refused.magic != SegmentRequest::kMagic)
        return base::failure(ErrorCode::internal, "an answer that is none");
      refused_ = refused.number;
      return {};
    }
    SegmentNotice notice;
    if (message.bytes.size() != sizeof(notice) || message.fds.size() != 1)
      return base::failure(ErrorCode::internal, "a message that is no segment's");
    std::memcpy(&notice, message.bytes.data(), sizeof(notice));
    if (notice.magic != SegmentNotice::kMagic || notice.id >= kMaxSegments)
      return base::failure(ErrorCode::internal, "a damaged notice of segment {}", notice.id);
    // relaxed: written under the mutex, which is held
    if (base::load_relaxed((*entries_)[notice.id].base) != nullptr) return {};  // it came twice
    auto memory =
        base::Segment::map_shared(message.fds[0].get(), notice.bytes, notice.writable != 0);
    if (!memory) return std::move(memory).error();
    Entry& entry = (*entries_)[notice.id];
    entry.bytes = memory->bytes();
    base::store_release(entry.base, memory->base());  // pairs: received-segment
    mapped_.push_back(std::move(*memory));
    return {};
  }

  const int socket_;  // borrowed from the process, which has it to its end
  const std::unique_ptr<std::array<Entry, kMaxSegments>> entries_;
  base::Mutex mutex_;
  std::condition_variable_any changed_;  // something was received
  std::vector<base::Segment> mapped_ RC_GUARDED_BY(mutex_);
  std::uint32_t requests_ RC_GUARDED_BY(mutex_) = 0;
  std::uint32_t refused_ RC_GUARDED_BY(mutex_) = 0;  // number of the request refused last
  bool ended_ RC_GUARDED_BY(mutex_) = false;
};

/// Ends the process when the host has died, and takes segments off the socket, in its own thread.
class Watcher {
 public:
  Watcher(int socket, int host, ReceivedSegments& segments, base::EventFd stop)
      : stop_(std::move(stop)), thread_([this, socket, host, &segments] {
          pthread_setname_np(pthread_self(), "rankcast-watch");
          std::array<pollfd, 3> watched{pollfd{host, POLLIN, 0}, pollfd{stop_.fd(), POLLIN, 0},
                                        pollfd{socket, POLLIN, 0}};
          for (;;) {
            poll(watched.data(), watched.size(), -1);
            if (watched[1].revents != 0) return;
            if (watched[0].revents != 0) _exit(kHostGone);
            // The host closes its end when it gives the rank up, but may still be alive.
            if (watched[2].revents != 0 && !segments.receive()) watched[2].fd = -1;
          }
        }) {}
  ~Watcher() {
    stop_.notify();
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  base::EventFd stop_;
  std::thread thread_;
};

int refuse(const std::string& why) {
  base::log_error("rankcast-rank: {}; this program is started by a mesh with link \"process\"",
                  why);
  return kBadHost;
}

}  // namespace

int run_process_rank(int socket, const ProcessRankMain& rank_main) {
  auto greeting = base::receive_greeting<Hello>(socket, 3);
  if (!greeting) return refuse(greeting.error().text);
  Hello& hello = greeting->header;
  hello.version[sizeof(hello.version) - 1] = '\0';
  if (std::string_view(hello.version) != RANKCAST_VERSION_STRING) {
    return refuse(
        fmt::format("the host is Rankcast {}, this is {}", hello.version, RANKCAST_VERSION_STRING));
  }
  auto memory = base::Segment::map_shared(greeting->fds[0].get(), hello.control_bytes, true);
  if (!memory) return refuse(memory.error().text);
  auto control = Control::attach(memory->base(), memory->bytes());
  if (!control) return refuse(control.error().text);
  if (hello.rank < 0 || hello.rank >= control->world_size()) {
    return refuse(fmt::format("rank {} of {}", hello.rank, control->world_size()));
  }
  auto stop = base::EventFd::create();
  if (!stop) return refuse(stop.error().text);

  ReceivedSegments segments(socket);
  base::KeeperSignal keeper(control->keeper_word(),
                            base::EventFd::adopt(greeting->fds[1].release()));
  const Watcher watcher(socket, greeting->fds[2].get(), segments, std::move(*stop));
  RankPort port(*control, hello.rank, {hello.spin_ns, hello.spin_yields != 0}, keeper, segments);
  rank_main(greeting->text, port);
  return 0;
}

}  // namespace rankcast::link
