#include "base/process.h"

#include <pthread.h>

#include <atomic>

#include "base/atomic.h"

namespace rankcast::base {
namespace {

// Written by a forked child while it has one thread. Read by any thread. Ordered by: the fork
// itself.
std::atomic<std::uint64_t> generation{1};

void count_child() {
  fetch_add_relaxed(generation, std::uint64_t{1});  // relaxed: the child has one thread yet
}

}  // namespace

std::uint64_t process_generation() noexcept {
  static const int kRegistered = pthread_atfork(nullptr, nullptr, &count_child);
  (void)kRegistered;
  return load_relaxed(
      generation);  // relaxed: constant but for the fork that this process began with
}

}  // namespace rankcast::base
