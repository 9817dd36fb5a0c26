// `cpu`: kernels and copies run in the rank's own thread, inside the call. Ordinals are virtual.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "device/copy.h"
#include "device/device.h"
#include "device/kinds.h"

namespace rankcast::device {
namespace {

/// What a kernel leaves in a failure is a stranger's: cut, completed and put within bounds.
void complete_failure(const rankcast_call& call, int status, rankcast_failure& failure) {
  failure.text[sizeof(failure.text) - 1] = '\0';
  if (failure.text[0] == '\0') {
    std::snprintf(failure.text, sizeof(failure.text), "status %d and no text", status);
  }
  if (failure.argument < -1 || failure.argument >= static_cast<std::int64_t>(call.tensor_count)) {
    failure.argument = -1;
  }
}

class CpuDevice final : public Device {
 public:
  std::string description() const override {
    return fmt::format("CPU, {} cores", std::thread::hardware_concurrency());
  }
  DLDevice dl_device() const override { return {.device_type = kDLCPU, .device_id = 0}; }
  bool computes() const override { return true; }

  base::Result<void*> import_segment(void* base, std::uint64_t bytes) override {
    if (base == nullptr || bytes == 0) {
      return base::unexpected_failure(ErrorCode::invalid_argument,
                                      "a segment of {} bytes at {} cannot be imported", bytes,
                                      fmt::ptr(base));
    }
    return base;
  }

  void launch(const Launch& launch, Signal& signal) noexcept override {
    const int status =
        launch.kernel->run(launch.context, launch.state, launch.call, &signal.failure);
    if (status != RANKCAST_OK) complete_failure(*launch.call, status, signal.failure);
    signal.fire(status == RANKCAST_OK ? Signal::State::done : Signal::State::failed);
  }

  void copy(const Copy& copy, Signal& signal) noexcept override {
    copy_elements(copy);
    signal.fire(Signal::State::done);
  }
};

base::Status available() { return {}; }

base::Status check(const DeviceSpec& spec) {
  if (spec.options.empty()) return {};
  return unknown_option(spec, spec.options.front(), "none");
}

base::Result<std::unique_ptr<Device>> create(const DeviceSpec& /*spec*/, SignalSink& /*sink*/) {
  return std::make_unique<CpuDevice>();
}

}  // namespace

DeviceKind cpu_kind() {
  return {.name = "cpu", .available = available, .check = check, .create = create};
}

}  // namespace rankcast::device
