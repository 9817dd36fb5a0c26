// Ranks as threads of this process.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/segment.h"
#include "link/kinds.h"
#include "link/segments.h"

namespace rankcast::link {
namespace {

using base::Deadline;
using base::Result;
using base::Status;

/// Everything that a rank's thread touches. Shared with the threads: one that does not stop within
/// close's budget keeps it alive.
struct ThreadState final : SegmentSource {
  base::Segment memory;
  Control control;
  base::SpinPolicy spin;
  RankMain rank_main;
  SegmentDirectory directory;
  std::vector<base::Segment> segments;  // by id; under the mesh's mutex
  std::vector<std::atomic<bool>>
      ended;           // by rank; written by its thread, read by stop and take_lost; seq_cst
  base::EventFd ends;  // readable when one has been written
  std::optional<base::KeeperSignal> keeper;

  std::byte* segment(std::uint32_t id, std::uint64_t* bytes) noexcept override {
    const SegmentDirectory::Entry entry = directory.at(id);
    *bytes = entry.bytes;
    return entry.base;
  }
};

class ThreadLink final : public Link {
 public:
  explicit ThreadLink(std::shared_ptr<ThreadState> state)
      : Link(state->control, *state->keeper, state->spin), state_(std::move(state)) {}

  ~ThreadLink() override {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.detach();
    }
  }

  std::string_view name() const noexcept override { return "thread"; }
  bool shares_host_memory() const noexcept override { return true; }
  int process_of(int /*rank*/) override { return getpid(); }

  Status start(RankStart start, Deadline deadline) override {
    state_->rank_main = std::move(start.main);
    for (int rank = 0; rank < world_size(); ++rank) {
      try {
        if (RANKCAST_FAULT_POINT("link.start_thread")) {
          throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        }
        threads_.emplace_back(&ThreadLink::thread_main, state_, rank);
      } catch (const std::system_error& error) {
        return base::failure(ErrorCode::out_of_memory,
                             "rank {}: cannot start a thread: {}; raise the limits of threads and "
                             "memory, or open fewer ranks",
                             rank, error.what())
            .with_rank(rank);
      }
    }
    Status status = wait_for_reports(deadline);
    if (!status.ok()) return status;
    {
      base::MutexLock lock(mutex_);
      started_ = true;
    }
    state_->ends.notify();  // one may have ended already
    return status;
  }

  void expect_ends() override {
    base::MutexLock lock(mutex_);
    ends_expected_ = true;
  }

  int events_fd() const noexcept override { return state_->ends.fd(); }
  std::vector<LostRank> take_lost() override {
    state_->ends.drain();
    std::vector<LostRank> lost;
    base::MutexLock lock(mutex_);
    if (!started_ || ends_expected_) return lost;
    for (int rank = 0; rank < world_size(); ++rank) {
      if (told_.contains(rank) ||
          !base::load_seq_cst(state_->ended[static_cast<std::size_t>(rank)]))
        continue;
      const Status report = report_of(control().channel(rank), rank);
      told_.insert(rank);
      lost.push_back({rank, "ended though nobody had told it to" +
                                (report.ok() ? std::string() : "; it told " + report.text)});
    }
    return lost;
  }

  std::vector<int> stop(Deadline deadline) override {
    expect_ends();
    std::vector<int> alive;
    for (std::size_t rank = 0; rank < threads_.size(); ++rank) {
      if (!threads_[rank].joinable()) continue;
      const auto ended = [&]() noexcept { return base::load_seq_cst(state_->ended[rank]); };
      if (control().waiters().wait(ended, spin(), deadline) == base::WaitResult::ready) {
        threads_[rank].join();
      } else {
        alive.push_back(static_cast<int>(rank));
      }
    }
    return alive;
  }

  Result<std::uint32_t> add_segment(std::uint64_t bytes, int /*owner*/,
                                    Access /*access*/) override {
    if (state_->segments.size() == kMaxSegments) {
      return base::unexpected_failure(ErrorCode::out_of_memory,
                                      "all {} segments of the mesh are in use", kMaxSegments);
    }
    auto segment = base::Segment::reserve(bytes);
    if (!segment) return tl::unexpected(std::move(segment).error());
    const auto id = static_cast<std::uint32_t>(state_->segments.size());
    state_->segments.push_back(std::move(*segment));
    state_->directory.set(id, {state_->segments.back().base(), state_->segments.back().bytes()});
    return id;
  }

  void let_read(std::uint32_t /*id*/, int /*reader*/) override {}

  void drop_segments() noexcept override { state_->segments.clear(); }

  std::byte* segment(std::uint32_t id) noexcept override { return state_->directory.at(id).base; }

 private:
  static void thread_main(const std::shared_ptr<ThreadState>& state, int rank) {
    pthread_setname_np(pthread_self(), ("rankcast-" + std::to_string(rank)).c_str());
    RankPort port(state->control, rank, state->spin, *state->keeper, *state);
    state->rank_main(port);
    base::store_seq_cst(state->ended[static_cast<std::size_t>(rank)], true);
    state->control.waiters().notify();
    state->ends.notify();
  }

  Status wait_for_reports(Deadline deadline) {
    for (int rank = 0; rank < world_size(); ++rank) {
      const Channel& channel = control().channel(rank);
      const auto reported = [&]() noexcept {
        return base::load_seq_cst(channel.state) != RankState::starting;
      };
      if (control().waiters().wait(reported, spin(), deadline) != base::WaitResult::ready) {
        return base::failure(ErrorCode::deadline_exceeded,
                             "rank {} did not report in time; raise MeshOptions::startup_timeout, "
                             "or open fewer ranks",
                             rank)
            .with_rank(rank);
      }
      if (base::load_seq_cst(channel.state) == RankState::failed) {
        return report_of(channel, rank);
      }
    }
    return {};
  }

  std::shared_ptr<ThreadState> state_;
  std::vector<std::thread> threads_;
  base::Mutex mutex_;
  bool started_ RC_GUARDED_BY(mutex_) = false;  // before, start tells what goes wrong
  bool ends_expected_ RC_GUARDED_BY(mutex_) = false;
  base::RankSet told_ RC_GUARDED_BY(mutex_);  // by take_lost
};

}  // namespace

Result<std::unique_ptr<Link>> create_thread_link(const LinkOptions& options) {
  auto memory = base::Segment::reserve(
      Control::bytes_needed(options.world_size, options.ring_capacity, options.shared_bytes));
  if (!memory) return tl::unexpected(std::move(memory).error());
  auto event = base::EventFd::create();
  if (!event) return tl::unexpected(std::move(event).error());
  auto ends = base::EventFd::create();
  if (!ends) return tl::unexpected(std::move(ends).error());

  auto state = std::make_shared<ThreadState>();
  state->memory = std::move(*memory);
  state->control = Control::create(state->memory.base(), options.world_size, options.ring_capacity,
                                   options.shared_bytes);
  state->spin = options.spin;
  state->ended = std::vector<std::atomic<bool>>(static_cast<std::size_t>(options.world_size));
  state->ends = std::move(*ends);
  state->keeper.emplace(state->control.keeper_word(), std::move(*event));
  return std::make_unique<ThreadLink>(std::move(state));
}

}  // namespace rankcast::link
