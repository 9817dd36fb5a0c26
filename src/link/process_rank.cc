#include "link/process_rank.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/event_fd.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/segment.h"
#include "link/process_words.h"
#include "link/segments.h"
#include "rankcast/version.h"

namespace rankcast::link {
namespace {

constexpr int kBadHost = 2;
constexpr int kHostGone = 3;

/// The segments that the host has sent. Both threads of the process take them off the socket: the
/// rank's when it meets an id that it does not know, the watcher's as they come, so that the socket
/// does not fill while a kernel runs.
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
      receive();
      base = base::load_acquire(entry.base);  // pairs: received-segment
    }
    if (base != nullptr) *bytes = entry.bytes;
    return base;
  }

  /// Takes what is there. False at the end of the connection.
  bool receive() noexcept {
    base::MutexLock lock(mutex_);
    for (;;) {
      auto message = base::receive_message(socket_, base::Deadline::at(0));
      if (!message) return message.error().code == ErrorCode::deadline_exceeded;
      if (message->bytes.empty()) return false;
      if (base::Status status = add_locked(*message); !status.ok()) {
        base::log_error("rank: {}", status.text);
      }
    }
  }

 private:
  struct Entry {
    // Written by: whoever receives, under the mutex, once. Read by: the rank's thread.
    // Ordered by: release after `bytes`, acquire (pairs: received-segment).
    std::atomic<std::byte*> base{nullptr};
    std::uint64_t bytes = 0;
  };

  base::Status add_locked(const base::Message& message) RC_REQUIRES(mutex_) {
    SegmentNotice notice;
    if (message.bytes.size() != sizeof(notice) || message.fds.size() != 1)
      return base::failure(ErrorCode::internal, "a message that is no segment's");
    std::memcpy(&notice, message.bytes.data(), sizeof(notice));
    if (notice.magic != SegmentNotice::kMagic || notice.id >= kMaxSegments)
      return base::failure(ErrorCode::internal, "a damaged notice of segment {}", notice.id);
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
  std::vector<base::Segment> mapped_ RC_GUARDED_BY(mutex_);
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
  auto message = base::receive_message(socket, base::Deadline::never());
  Hello hello;
  if (!message || message->bytes.size() < sizeof(hello)) {
    return refuse(message ? "no host at descriptor 3" : message.error().text);
  }
  std::memcpy(&hello, message->bytes.data(), sizeof(hello));
  hello.version[sizeof(hello.version) - 1] = '\0';
  if (hello.magic != Hello::kMagic || message->fds.size() != 3 ||
      message->bytes.size() != sizeof(hello) + hello.text_bytes) {
    return refuse("what came is no host's hello");
  }
  if (std::string_view(hello.version) != RANKCAST_VERSION_STRING) {
    return refuse(
        fmt::format("the host is Rankcast {}, this is {}", hello.version, RANKCAST_VERSION_STRING));
  }
  auto memory = base::Segment::map_shared(message->fds[0].get(), hello.control_bytes, true);
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
                            base::EventFd::adopt(message->fds[1].release()));
  const Watcher watcher(socket, message->fds[2].get(), segments, std::move(*stop));
  RankPort port(*control, hello.rank, {hello.spin_ns, hello.spin_yields != 0}, keeper, segments);
  const std::string_view text(reinterpret_cast<const char*>(message->bytes.data()) + sizeof(hello),
                              hello.text_bytes);
  rank_main(text, port);
  port.tell_stopped();
  return 0;
}

}  // namespace rankcast::link
