// `null`: launches nothing, so that what is left of a dispatch is its overhead; copies for real, so
// that uploads and downloads keep their meaning. With `delay_us` it is the skeleton of a GPU: work
// is queued, done later by a thread of the device, in order, and then signalled.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/kinds.h"

namespace rankcast::device {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kDelayKey = "delay_us";
constexpr std::int64_t kMaxDelayUs = 10'000'000;

/// A launch, or a copy if it has a destination.
struct Operation {
  Copy copy = {};
  Signal* signal = nullptr;  // borrowed from the rank, which keeps it until it has fired
  Clock::time_point due{};
};

void finish(const Operation& operation) noexcept {
  if (operation.copy.destination != nullptr) copy_elements(operation.copy);
  operation.signal->fire(Signal::State::done);
}

void fail(const Operation& operation, const char* text) noexcept {
  rankcast_failure& failure = operation.signal->failure;
  failure.argument = -1;
  std::snprintf(failure.text, sizeof(failure.text), "%s", text);
  operation.signal->fire(Signal::State::failed);
}

/// Finishes operations in the order given, each not before it is due, in a thread of its own that
/// sleeps in between. Allocates only when more are waiting than ever before.
class LateQueue {
 public:
  explicit LateQueue(SignalSink& sink) : sink_(sink), thread_([this] { run(); }) {}

  /// What is not finished fails.
  ~LateQueue() {
    {
      base::MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  LateQueue(const LateQueue&) = delete;
  LateQueue& operator=(const LateQueue&) = delete;

  void add(const Operation& operation) noexcept try {
    bool idle = false;
    {
      base::MutexLock lock(mutex_);
      waiting_.push_back(operation);
      idle = std::exchange(idle_, false);
    }
    if (idle) changed_.notify_one();
  } catch (const std::exception&) {
    fail(operation, "the null device's queue is out of memory");
  }

 private:
  void run() {
    std::vector<Operation> taken;
    base::MutexLock lock(mutex_);
    while (true) {
      while (waiting_.empty() && !stopping_) {
        idle_ = true;
        changed_.wait(lock);
      }
      if (waiting_.empty()) return;
      taken.swap(waiting_);
      for (const Operation& operation : taken) {
        while (!stopping_ && Clock::now() < operation.due) changed_.wait_until(lock, operation.due);
        const bool stopping = stopping_;
        lock.unlock();
        stopping ? fail(operation, "the device was closed before this was done")
                 : finish(operation);
        sink_.on_signal();
        lock.lock();
      }
      taken.clear();
    }
  }

  SignalSink& sink_;  // borrowed from the device's creator, who keeps it longer than the device
  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Operation> waiting_ RC_GUARDED_BY(mutex_);
  bool idle_ RC_GUARDED_BY(mutex_) = false;  // the thread sleeps until something is added
  bool stopping_ RC_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

class NullDevice final : public Device {
 public:
  NullDevice(std::int64_t delay_us, SignalSink& sink) : delay_us_(delay_us) {
    if (delay_us > 0) late_.emplace(sink);
  }

  std::string description() const override {
    return fmt::format("null: computes nothing, completes after {} us", delay_us_);
  }
  DLDevice dl_device() const override { return {.device_type = kDLCPU, .device_id = 0}; }
  bool computes() const override { return false; }

  base::Result<void*> import_segment(void* base, std::uint64_t bytes) override {
    if (base == nullptr || bytes == 0) {
      return base::unexpected_failure(ErrorCode::invalid_argument,
                                      "a segment of {} bytes at {} cannot be imported", bytes,
                                      fmt::ptr(base));
    }
    return base;
  }

  void launch(const Launch& /*launch*/, Signal& signal) noexcept override {
    start({.signal = &signal});
  }

  void copy(const Copy& copy, Signal& signal) noexcept override {
    start({.copy = copy, .signal = &signal});
  }

 private:
  void start(Operation operation) noexcept {
    if (!late_) {
      finish(operation);
      return;
    }
    operation.due = Clock::now() + std::chrono::microseconds(delay_us_);
    late_->add(operation);
  }

  std::int64_t delay_us_;
  std::optional<LateQueue> late_;  // none: everything is done inside the call
};

/// The value of delay_us; nothing when it is malformed or out of range.
std::optional<std::int64_t> parse_delay(std::string_view text) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.begin(), text.end(), value);
  if (error != std::errc{} || stop != text.end() || value < 0 || value > kMaxDelayUs)
    return std::nullopt;
  return value;
}

base::Status available() { return {}; }

base::Status check(const DeviceSpec& spec) {
  for (const DeviceOption& option : spec.options) {
    if (option.key != kDelayKey) return unknown_option(spec, option, kDelayKey);
    if (!parse_delay(option.value)) {
      return base::failure(ErrorCode::invalid_argument,
                           "device \"{}\": {} is \"{}\", but a whole number of microseconds from 0 "
                           "to {} is wanted",
                           spec.to_string(), kDelayKey, option.value, kMaxDelayUs);
    }
  }
  return {};
}

base::Result<std::unique_ptr<Device>> create(const DeviceSpec& spec, SignalSink& sink) try {
  std::int64_t delay_us = 0;
  for (const DeviceOption& option : spec.options) delay_us = *parse_delay(option.value);
  return std::make_unique<NullDevice>(delay_us, sink);
} catch (const std::system_error& error) {
  return base::unexpected_failure(ErrorCode::out_of_memory,
                                  "device \"{}\": its thread cannot be started: {}",
                                  spec.to_string(), error.what());
}

}  // namespace

DeviceKind null_kind() {
  return {.name = "null", .available = available, .check = check, .create = create};
}

}  // namespace rankcast::device
