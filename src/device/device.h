// The device contract: memory plus something that runs kernels. A device allocates nothing of its
// own accord and knows no runs: it is given memory, told to copy and to launch, and signals.
//
// One Device belongs to one rank; its functions are called by that rank's thread alone. Work is
// done in the order in which it was given. `launch` and `copy` may return before the work is done:
// a task retires when its signal fires.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic.h"
#include "base/status.h"
#include "device/device_list.h"
#include "rankcast/kernel_abi.h"
#include "rankcast/tensor.h"

namespace rankcast::device {

/// Whoever waits for signals of a device: the rank. Called after a signal has fired in a thread of
/// the device; must not block and must not call the device. Not called for a signal that fires in
/// the caller's thread, before `launch` or `copy` returns: the caller looks at its signal then
/// anyway, and a doorbell would cost more than a small kernel.
class SignalSink {
 public:
  virtual ~SignalSink() = default;
  virtual void on_signal() noexcept = 0;
};

/// Completion of one launch or copy. Owned by the rank, written once by the device; re-armed by the
/// rank with `arm`.
class Signal {
 public:
  enum class State : std::uint32_t { pending, done, failed };

  void arm() noexcept {
    failure.argument = -1;
    failure.text[0] = '\0';
    base::store_relaxed(state_,
                        State::pending);  // relaxed: handed to the device by the call that follows
  }

  /// Device side. `failure` is filled before `fire(State::failed)`.
  void fire(State state) noexcept {
    base::store_seq_cst(state_, state);  // pairs: device_signal
  }

  State state() const noexcept {
    return base::load_seq_cst(state_);  // pairs: device_signal
  }

  rankcast_failure
      failure{};  // written by the device before fire(failed), read by the rank after it

 private:
  // Written by the device (fire) and, between uses, the rank (arm); read by the rank; ordered by
  // device_signal.
  std::atomic<State> state_{State::pending};
};

/// One kernel launch. Everything it points at stays valid and unchanged until its signal has fired.
struct Launch {
  const rankcast_kernel* kernel = nullptr;
  void* state = nullptr;  // of the kernel's prepare
  const rankcast_kernel_context* context = nullptr;
  const rankcast_call* call = nullptr;
};

/// One copy, element by element in row-major order. Both layouts are valid, of one dtype and shape;
/// the memory is aligned to the dtype.
struct Copy {
  void* destination = nullptr;
  const detail::Layout* destination_layout = nullptr;
  const void* source = nullptr;
  const detail::Layout* source_layout = nullptr;
};

class Device {
 public:
  /// Waits for no work that could still be stopped; what is pending fires as failed before this
  /// returns.
  virtual ~Device() = default;

  /// For people: "CPU, 2 cores".
  virtual std::string description() const = 0;
  /// What kernels see in `DLTensor::device`.
  virtual DLDevice dl_device() const = 0;
  /// The device's queue as kernels see it (`rankcast_kernel_context::stream`); null where there is
  /// none.
  virtual void* stream() const { return nullptr; }
  /// True when launches are executed, so that outputs mean something; false on `null`.
  virtual bool computes() const = 0;

  /// Makes `bytes` of host memory at `base` usable; returns the address by which the device reaches
  /// it. The memory stays mapped until the device is gone. `invalid_argument` when there is nothing
  /// to import.
  virtual base::Result<void*> import_segment(void* base, std::uint64_t bytes) = 0;

  /// Starts the kernel. Fires `signal`, which must be armed, once, when it has ended; with
  /// `failure` filled when it failed: a text that is never empty, an argument that is one of the
  /// call's tensors or -1.
  virtual void launch(const Launch& launch, Signal& signal) noexcept = 0;
  /// Copies between host memory and device memory, or within either; in order with launches.
  /// Touches no byte of the destination that belongs to none of its elements. No byte is in both;
  /// everything that `copy` points at stays valid, and the source unchanged, until the signal has
  /// fired.
  virtual void copy(const Copy& copy, Signal& signal) noexcept = 0;
};

/// A kind of device that this build knows.
struct DeviceKind {
  std::string_view name;  // "cpu", "null"
  /// ok, or why this machine cannot have one ("unavailable, because ...").
  base::Status (*available)();
  /// Fails with invalid_argument for options it does not know or values it does not take (naming
  /// the device, the option and what is accepted). Makes nothing.
  base::Status (*check)(const DeviceSpec& spec);
  /// Only for a spec that passes `check`, where `available`.
  base::Result<std::unique_ptr<Device>> (*create)(const DeviceSpec& spec, SignalSink& sink);
};

/// All kinds, those that are unavailable here included.
std::span<const DeviceKind> device_kinds();

/// Checks kind, availability and options without making the device. `invalid_argument` lists the
/// known kinds.
base::Status check_device(const DeviceSpec& spec);

/// Makes the device of `spec`; `sink` must outlive it.
base::Result<std::unique_ptr<Device>> create_device(const DeviceSpec& spec, SignalSink& sink);

}  // namespace rankcast::device
