#include "mesh/keeper.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "base/fault_point.h"

namespace rankcast::mesh {

base::Result<std::unique_ptr<Keeper>> Keeper::start(base::KeeperSignal& signal, Work work,
                                                    int events_fd, OnEvents on_events,
                                                    Watch watch) {
  std::unique_ptr<Keeper> keeper(
      new Keeper(signal, std::move(work), events_fd, std::move(on_events), std::move(watch)));
  try {
    if (RANKCAST_FAULT_POINT("mesh.start_keeper")) {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    keeper->thread_ = std::thread(&Keeper::main, keeper.get());
  } catch (const std::system_error& error) {
    return base::unexpected_failure(ErrorCode::out_of_memory,
                                    "cannot start the keeper's thread: {}", error.what());
  }
  return keeper;
}

namespace {

// Rounded up: woken too early, it would come back at once.
int poll_timeout_ms(base::Deadline deadline) noexcept {
  constexpr std::int64_t kMsNs = 1'000'000;
  if (deadline.is_never()) return -1;
  const std::int64_t ms = (deadline.remaining_ns() + kMsNs - 1) / kMsNs;
  return static_cast<int>(std::min<std::int64_t>(ms, std::numeric_limits<int>::max()));
}

}  // namespace

Keeper::Keeper(base::KeeperSignal& signal, Work work, int events_fd, OnEvents on_events,
               Watch watch)
    : signal_(signal),
      work_(std::move(work)),
      events_fd_(events_fd),
      on_events_(std::move(on_events)),
      watch_(std::move(watch)) {}

Keeper::~Keeper() {
  base::store_seq_cst(stop_, true);
  signal_.notify();
  if (thread_.joinable()) thread_.join();
}

void Keeper::main() {
  pthread_setname_np(pthread_self(), "rankcast-keeper");
  while (!base::load_seq_cst(stop_)) {
    // poll ignores a negative descriptor.
    std::array<pollfd, 2> descriptors{pollfd{signal_.fd(), POLLIN, 0},
                                      pollfd{events_fd_, POLLIN, 0}};
    const int timeout_ms = watch_ ? poll_timeout_ms(watch_()) : -1;
    if (poll(descriptors.data(), descriptors.size(), timeout_ms) == 0) continue;
    if (descriptors[1].revents != 0) on_events_();
    signal_.drain();
    signal_.clear();
    if (!work_()) continue;
    // What is left waits for ranks: ask to be told, then look once more, for what came in between.
    signal_.want();
    work_();
  }
}

}  // namespace rankcast::mesh
