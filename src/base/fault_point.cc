#include "base/fault_point.h"

#include <map>
#include <set>

#include "base/mutex.h"

namespace rankcast::base {
namespace {

struct Registry {
  Mutex mutex;
  bool recording RC_GUARDED_BY(mutex) = false;
  std::set<std::string, std::less<>> names RC_GUARDED_BY(mutex);
  // For each armed point, how often it is still to be passed before it fails.
  std::map<std::string, std::uint32_t, std::less<>> armed RC_GUARDED_BY(mutex);

  void update_active_locked() RC_REQUIRES(mutex) {
    // relaxed: a flag; whoever finds it set takes the mutex
    store_relaxed(detail::fault_points_active, recording || !armed.empty() ? 1u : 0u);
  }
};

// Made at the first use, which is never in a static constructor; ends after main, when no test runs
// any more.
Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

namespace detail {

// Written by, read by, ordered by: as declared in the header.
constinit std::atomic<std::uint32_t> fault_points_active{0};

bool fault_point_reached(std::string_view name) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  if (all.recording) all.names.emplace(name);
  const auto point = all.armed.find(name);
  if (point == all.armed.end()) return false;
  if (point->second != 0) {
    --point->second;
    return false;
  }
  all.armed.erase(point);
  all.update_active_locked();
  return true;
}

}  // namespace detail

void record_fault_points(bool on) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.recording = on;
  all.update_active_locked();
}

std::vector<std::string> fault_point_names() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  return {all.names.begin(), all.names.end()};
}

void forget_fault_points() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.names.clear();
}

void arm_fault_point(std::string_view name, std::uint32_t skip_count) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.armed.insert_or_assign(std::string(name), skip_count);
  all.update_active_locked();
}

int armed_fault_points() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  return static_cast<int>(all.armed.size());
}

void disarm_all_fault_points() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.armed.clear();
  all.update_active_locked();
}

}  // namespace rankcast::base
