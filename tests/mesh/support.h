// What tests of a whole mesh share: kernels that tell what they did, gates that hold a kernel until
// told, host memory.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "rankcast/rankcast.h"
#include "support/expect_error.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define RANKCAST_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define RANKCAST_TEST_SANITIZED 1
#endif
#endif

namespace rankcast::test {

/// No test waits longer; only what hangs reaches it.
inline constexpr std::chrono::seconds kHangLimit{60};

/// True as soon as `condition()` is; false only when it hangs. For what another thread brings
/// about.
template <class Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kHangLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// For suites whose cases hold on every link: GetParam() is its name.
class OnEachLink : public ::testing::TestWithParam<std::string> {};
inline std::string name_of_link(const ::testing::TestParamInfo<std::string>& test) {
  return test.param;
}
inline auto all_links() { return ::testing::Values(std::string("thread"), std::string("process")); }

/// Holds everyone who passes until it is opened. A kernel that is never let through fails instead
/// of hanging.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++entered_;
    changed_.notify_all();
    if (!changed_.wait_for(lock, kHangLimit, [&] { return open_; }))
      throw std::runtime_error("the gate was never opened");
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  /// Waits until `count` have come.
  void wait_entered(int count) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kHangLimit, [&] { return entered_ >= count; }))
      ADD_FAILURE() << "nobody came to the gate";
  }
  int entered() const {
    const std::lock_guard lock(mutex_);
    return entered_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int entered_ = 0;
  bool open_ = false;
};

/// Opens a gate at the end of a scope, so that a failed assertion leaves no kernel behind it.
class OpenAtEnd {
 public:
  explicit OpenAtEnd(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  ~OpenAtEnd() { gate_->open(); }
  OpenAtEnd(const OpenAtEnd&) = delete;
  OpenAtEnd& operator=(const OpenAtEnd&) = delete;

 private:
  std::shared_ptr<Gate> gate_;
};

/// Registers `test.gate`, whose launches pass the gate.
inline std::shared_ptr<Gate> add_gate(Mesh& mesh, std::string_view name = "test.gate") {
  auto gate = std::make_shared<Gate>();
  mesh.register_kernel(name, [gate](const KernelCall&) { gate->pass(); });
  return gate;
}

/// Registers `test.count`, which takes any arguments and counts its launches.
inline std::shared_ptr<std::atomic<int>> add_counter(Mesh& mesh,
                                                     std::string_view name = "test.count") {
  auto count = std::make_shared<std::atomic<int>>(0);
  mesh.register_kernel(name, [count](const KernelCall&) { count->fetch_add(1); });
  return count;
}

/// One launch without arguments on each of `ranks`.
inline Program launch_on(std::string kernel, std::vector<int> ranks) {
  return Program("launch_" + kernel, [kernel, ranks](Orchestrator& orch, const Arguments&) {
    for (const int rank : ranks) orch.submit(kernel, rank, TaskArgs{});
  });
}

/// The same on every rank.
inline Program launch_everywhere(std::string kernel) {
  return Program("launch_" + kernel, [kernel](Orchestrator& orch, const Arguments&) {
    for (int rank = 0; rank < orch.world_size(); ++rank) orch.submit(kernel, rank, TaskArgs{});
  });
}

/// 0, 1, 2, ... plus `first`.
template <class T = float>
std::vector<T> counting(std::size_t count, T first = T{}) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// What a tensor holds.
template <class T = float>
std::vector<T> values_of(Mesh& mesh, const DeviceTensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.shape().element_count()));
  mesh.download(tensor, MutableHostView(values.data(), tensor.shape()));
  return values;
}
template <class T = float>
std::vector<T> values_of(Mesh& mesh, const StackedDeviceTensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.shape().element_count()));
  mesh.download(tensor, MutableHostView(values.data(), tensor.shape()));
  return values;
}

/// What of this process a mesh takes and must give back.
inline std::size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}
/// A sanitizer starts a thread of its own with the first of ours: that one is counted from the
/// start.
inline std::size_t thread_count() {
  static const bool begun = [] {
    std::thread([] {}).join();
    return true;
  }();
  return begun ? entries_of("/proc/self/task") : 0;
}
inline std::size_t descriptor_count() { return entries_of("/proc/self/fd"); }

}  // namespace rankcast::test
