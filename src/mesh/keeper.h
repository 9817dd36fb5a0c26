// The mesh's one housekeeping thread (PROTOCOL P11): asleep in poll until somebody asks, off the
// path of a healthy dispatch.
#pragma once

#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/keeper_signal.h"
#include "base/status.h"

namespace rankcast::mesh {

class Keeper {
 public:
  /// What is done each time the keeper wakes: everything that can be done now. Returns true while
  /// something is left that a rank's next retirement may bring on.
  using Work = std::function<bool()>;

  /// What is done when the descriptor of events is readable, before the work.
  using OnEvents = std::function<void()>;

  /// Asked before each sleep, and whenever the moment has come that it last answered: how long the
  /// keeper may sleep at most.
  using Watch = std::function<base::Deadline()>;

  /// `signal` is borrowed: the mesh stops the keeper before its link is gone, and so is
  /// `events_fd`, -1 for none. Fails when no thread can be had.
  static base::Result<std::unique_ptr<Keeper>> start(base::KeeperSignal& signal, Work work,
                                                     int events_fd = -1, OnEvents on_events = {},
                                                     Watch watch = {});
  /// Stops and joins.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

 private:
  Keeper(base::KeeperSignal& signal, Work work, int events_fd, OnEvents on_events, Watch watch);
  void main();

  base::KeeperSignal& signal_;
  Work work_;
  int events_fd_;
  OnEvents on_events_;
  Watch watch_;
  // Written by the destructor, read by the keeper's thread; ordered by seq_cst, then the eventfd.
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rankcast::mesh
