// What a test of a device needs beside it: a sink that can be waited on, and specs from text.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "device/device.h"

namespace rankcast::device {

/// Counts what it is told and wakes whoever waits. Any thread.
class Bell final : public SignalSink {
 public:
  void on_signal() noexcept override {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }

  int count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  /// Waits until `signal` has fired and returns its state; `pending` only when that hangs.
  Signal::State wait(const Signal& signal) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60),
                      [&] { return signal.state() != Signal::State::pending; });
    return signal.state();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  int count_ = 0;
};

inline DeviceSpec spec_of(std::string_view text) {
  auto specs = parse_device_list(text);
  if (!specs) throw std::invalid_argument(specs.error().text);
  return specs->front();
}

inline std::unique_ptr<Device> device_of(std::string_view text, SignalSink& sink) {
  auto device = create_device(spec_of(text), sink);
  if (!device) throw std::runtime_error(device.error().text);
  return std::move(*device);
}

}  // namespace rankcast::device
