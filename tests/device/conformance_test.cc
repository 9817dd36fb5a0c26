// The one suite for devices: every kind that is registered runs it, with each of its sets of
// options. A kind that this machine lacks skips with its reason; a kind that is there must pass.
// tests: src/device/cpu.cc
// tests: src/device/kinds.h
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/bell.h"
#include "device/byte_copy.h"
#include "device/device.h"

namespace rankcast::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = Signal::State;

/// Each kind as it is without options, and the sets of options that change what it does.
std::vector<std::string> all_cases() {
  std::vector<std::string> cases;
  for (const DeviceKind& kind : device_kinds()) cases.push_back(std::string(kind.name) + ":0");
  for (const char* more : {"cpu:63", "null:0?delay_us=0", "null:0?delay_us=1", "null:7?delay_us=50",
                           "null:0?delay_us=2000"}) {
    cases.emplace_back(more);
  }
  return cases;
}

/// A kernel call with a log that the kernel appends its scalar to.
struct Log {
  std::vector<std::int64_t> values;
};

int append_run(const rankcast_kernel_context* /*context*/, void* state, const rankcast_call* call,
               rankcast_failure* /*failure*/) {
  static_cast<Log*>(state)->values.push_back(call->scalars[0].value.i64);
  return RANKCAST_OK;
}

/// Adds its scalar to each of the bytes of its one tensor.
int add_run(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
            rankcast_failure* /*failure*/) {
  auto* bytes = static_cast<std::uint8_t*>(call->tensors[0].data);
  for (std::int64_t i = 0; i < call->tensors[0].shape[0]; ++i) {
    bytes[i] = static_cast<std::uint8_t>(bytes[i] + call->scalars[0].value.i64);
  }
  return RANKCAST_OK;
}

/// Fails in the way that its state says.
struct Fault {
  int status = RANKCAST_FAILED;
  std::int32_t argument = -1;
  std::string text;
};

int fault_run(const rankcast_kernel_context* /*context*/, void* state,
              const rankcast_call* /*call*/, rankcast_failure* failure) {
  const auto& fault = *static_cast<const Fault*>(state);
  failure->argument = fault.argument;
  // Not terminated when it is too long: a stranger's kernel may do that.
  std::memcpy(failure->text, fault.text.c_str(),
              std::min(fault.text.size() + 1, sizeof(failure->text)));
  return fault.status;
}

rankcast_kernel kernel_of(decltype(rankcast_kernel::run) run) {
  rankcast_kernel kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.name = "test.kernel";
  kernel.run = run;
  return kernel;
}

/// Everything that a launch points at, and its signal.
class Work {
 public:
  explicit Work(const rankcast_kernel& kernel, void* state = nullptr, std::int64_t scalar = 0)
      : kernel_(kernel), state_(state) {
    scalar_.type = RANKCAST_SCALAR_I64;
    scalar_.value.i64 = scalar;
    context_.struct_size = sizeof(context_);
    context_.abi_version = RANKCAST_KERNEL_ABI_VERSION;
    context_.world_size = 1;
    context_.abort_word = &abort_word_;
    call_.struct_size = sizeof(call_);
    call_.scalar_count = 1;
    call_.scalars = &scalar_;
    signal_->arm();
  }

  /// One row of bytes at an address of the device.
  void set_tensor(const Device& device, void* data, std::int64_t bytes) {
    extent_ = bytes;
    tensor_ = {.data = data,
               .device = device.dl_device(),
               .ndim = 1,
               .dtype = {.code = kDLUInt, .bits = 8, .lanes = 1},
               .shape = &extent_,
               .strides = &stride_,
               .byte_offset = 0};
    call_.tensor_count = 1;
    call_.tensors = &tensor_;
    call_.tags = &tag_;
  }

  void launch(Device& device) {
    device.launch({.kernel = &kernel_, .state = state_, .context = &context_, .call = &call_},
                  *signal_);
  }

  Signal& signal() { return *signal_; }

 private:
  rankcast_kernel kernel_;
  void* state_;
  std::uint32_t abort_word_ = 0;
  std::int64_t extent_ = 1;
  std::int64_t stride_ = 1;
  std::uint8_t tag_ = RANKCAST_INOUT;
  DLTensor tensor_{};
  rankcast_scalar scalar_{};
  rankcast_call call_{};
  rankcast_kernel_context context_{};
  std::unique_ptr<Signal> signal_ = std::make_unique<Signal>();
};

/// One unit of work with an address that stays.
std::unique_ptr<Work> work_of(decltype(rankcast_kernel::run) run, void* state = nullptr,
                              std::int64_t scalar = 0) {
  return std::make_unique<Work>(kernel_of(run), state, scalar);
}

class DeviceConformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const DeviceSpec spec = spec_of(GetParam());
    for (const DeviceKind& kind : device_kinds()) {
      if (kind.name != spec.kind) continue;
      const base::Status available = kind.available();
      if (!available.ok()) GTEST_SKIP() << spec.to_string() << ": " << available.text;
    }
    device = device_of(GetParam(), bell);
  }

  /// Memory that the device reaches, filled with 0.
  std::uint8_t* segment(std::size_t bytes) {
    memory = std::make_unique<std::uint8_t[]>(bytes);
    auto address = device->import_segment(memory.get(), bytes);
    if (!address) throw std::runtime_error(address.error().text);
    return static_cast<std::uint8_t*>(*address);
  }

  State copy(void* to, const void* from, std::size_t bytes) {
    Signal signal;
    signal.arm();
    const ByteCopy all(to, from, bytes);
    device->copy(all.copy(), signal);
    return bell.wait(signal);
  }

  Bell bell;
  Log log;
  std::unique_ptr<std::uint8_t[]> memory;
  std::unique_ptr<Device> device;  // last: it may use all of the above until it is gone
};

TEST_P(DeviceConformance, DescribesItself) {
  EXPECT_FALSE(device->description().empty());
  EXPECT_NE(device->dl_device().device_type, 0);
  EXPECT_GE(device->dl_device().device_id, 0);
}

TEST_P(DeviceConformance, LaunchesInOrderIfItComputesAndNotAtAllElse) {
  constexpr int kLaunches = 300;
  std::vector<std::unique_ptr<Work>> works;
  for (int i = 0; i < kLaunches; ++i) {
    works.push_back(work_of(append_run, &log, i));
    works.back()->launch(*device);
  }
  for (const auto& work : works) ASSERT_EQ(bell.wait(work->signal()), State::done);
  std::vector<std::int64_t> expected;
  if (device->computes()) {
    expected.resize(kLaunches);
    std::iota(expected.begin(), expected.end(), 0);
  }
  EXPECT_EQ(log.values, expected);
}

TEST_P(DeviceConformance, SignalsFireInOrder) {
  constexpr std::size_t kCount = 400;
  std::array<std::uint8_t, 16> from{};
  std::uint8_t* const to = segment(from.size());
  const ByteCopy one(to, from.data(), from.size());
  std::vector<std::unique_ptr<Work>> works;
  works.reserve(kCount);
  for (std::size_t i = 0; i < kCount; ++i) works.push_back(work_of(append_run, &log));
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i % 2 == 0) {
      works[i]->launch(*device);
    } else {
      device->copy(one.copy(), works[i]->signal());
    }
  }
  // Looked at from the last to the first: once one has fired, all before it have.
  bool all_fired = false;
  while (!all_fired) {
    bool later_fired = false;
    all_fired = true;
    for (std::size_t i = kCount; i-- > 0;) {
      const bool fired = works[i]->signal().state() != State::pending;
      ASSERT_TRUE(fired || !later_fired) << "signal " << i << " is late";
      later_fired = fired;
      all_fired = all_fired && fired;
    }
    if (!all_fired) {
      ASSERT_EQ(bell.wait(works[kCount - 1]->signal()), State::done);
    }
  }
}

TEST_P(DeviceConformance, ASignalFiresOnce) {
  auto first = work_of(append_run, &log);
  first->launch(*device);
  ASSERT_EQ(bell.wait(first->signal()), State::done);
  first->signal().arm();
  for (int i = 0; i < 20; ++i) {
    auto other = work_of(append_run, &log);
    other->launch(*device);
    ASSERT_EQ(bell.wait(other->signal()), State::done);
  }
  device.reset();
  EXPECT_EQ(first->signal().state(), State::pending);
}

TEST_P(DeviceConformance, TheSinkHearsOfSignalsThatFireLater) {
  int late = 0;
  constexpr int kLaunches = 50;
  std::vector<std::unique_ptr<Work>> works;
  for (int i = 0; i < kLaunches; ++i) {
    works.push_back(work_of(append_run, &log));
    works.back()->launch(*device);
    if (works.back()->signal().state() == State::pending) ++late;
  }
  for (const auto& work : works) ASSERT_EQ(bell.wait(work->signal()), State::done);
  device.reset();  // after which no call can be on its way
  EXPECT_GE(bell.count(), late);
  EXPECT_LE(bell.count(), kLaunches);
}

TEST_P(DeviceConformance, AFailureArrivesWithItsTextAndArgument) {
  Fault fault{.argument = 0, .text = "argument 0: no good"};
  std::uint8_t* const data = segment(8);
  auto failing = work_of(fault_run, &fault);
  failing->set_tensor(*device, data, 8);
  failing->launch(*device);
  auto next = work_of(append_run, &log, 5);
  next->launch(*device);
  const State state = bell.wait(failing->signal());
  // What comes after a failed launch is not the device's to stop.
  EXPECT_EQ(bell.wait(next->signal()), State::done);
  if (!device->computes()) {
    EXPECT_EQ(state, State::done);
    return;
  }
  EXPECT_EQ(state, State::failed);
  EXPECT_STREQ(failing->signal().failure.text, "argument 0: no good");
  EXPECT_EQ(failing->signal().failure.argument, 0);
  EXPECT_EQ(log.values, std::vector<std::int64_t>{5});

  failing->signal().arm();
  fault = {.status = RANKCAST_OK, .text = ""};
  failing->launch(*device);
  EXPECT_EQ(bell.wait(failing->signal()), State::done);
  EXPECT_STREQ(failing->signal().failure.text, "");
}

TEST_P(DeviceConformance, AFailureIsCompleteWhateverTheKernelLeft) {
  Fault fault{.status = 7, .argument = 3, .text = ""};
  auto work = work_of(fault_run, &fault);
  work->launch(*device);
  if (!device->computes()) {
    EXPECT_EQ(bell.wait(work->signal()), State::done) << "no kernel ran that could fail";
    return;
  }
  ASSERT_EQ(bell.wait(work->signal()), State::failed);
  EXPECT_THAT(work->signal().failure.text, HasSubstr("7"));
  EXPECT_EQ(work->signal().failure.argument, -1) << "the call has no argument 3";

  work->signal().arm();
  fault = {.argument = -9, .text = std::string(RANKCAST_FAILURE_TEXT_BYTES, 'x')};
  work->launch(*device);
  ASSERT_EQ(bell.wait(work->signal()), State::failed);
  EXPECT_EQ(std::string(work->signal().failure.text),
            std::string(RANKCAST_FAILURE_TEXT_BYTES - 1, 'x'));
  EXPECT_EQ(work->signal().failure.argument, -1);
}

TEST_P(DeviceConformance, CopiesBytesEachWay) {
  for (const std::size_t bytes : std::to_array<std::size_t>({1, 7, 4096, 1 << 20})) {
    std::vector<std::uint8_t> from(bytes);
    for (std::size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::uint8_t>(i * 7 + 1);
    std::vector<std::uint8_t> to(bytes, 0xEE);
    std::uint8_t* const first = segment(2 * bytes + 1);
    std::uint8_t* const second = first + bytes;
    ASSERT_EQ(copy(first, from.data(), bytes), State::done);
    ASSERT_EQ(copy(second, first, bytes), State::done);
    ASSERT_EQ(copy(to.data(), second, bytes), State::done);
    EXPECT_EQ(to, from) << bytes;
  }
}

// Every second column of a matrix into the columns of another, and nothing beside them.
TEST_P(DeviceConformance, CopiesBetweenLayoutsAndTouchesNoGap) {
  std::vector<std::uint16_t> from(4 * 6);
  std::iota(from.begin(), from.end(), std::uint16_t{1});
  detail::Layout every_second = tensor::contiguous_layout(DType::i16, Shape{4, 3});
  every_second.strides = {6, 2};
  every_second.extent_bytes = *tensor::extent_bytes_of(every_second);
  detail::Layout columns = every_second;
  columns.strides = {1, 5};
  columns.extent_bytes = *tensor::extent_bytes_of(columns);
  auto* const data = reinterpret_cast<std::uint16_t*>(segment(64));
  const detail::Layout dense = tensor::contiguous_layout(DType::i16, Shape{4, 3});
  std::vector<std::uint16_t> to(12);
  Signal up, down;
  up.arm();
  down.arm();
  device->copy({data, &columns, from.data(), &every_second}, up);
  device->copy({to.data(), &dense, data, &columns}, down);
  ASSERT_EQ(bell.wait(down), State::done);
  ASSERT_EQ(bell.wait(up), State::done);
  EXPECT_THAT(to, ElementsAre(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23));
  std::vector<std::uint16_t> all(15);
  ASSERT_EQ(copy(all.data(), data, 30), State::done);
  EXPECT_THAT(all, ElementsAre(1, 7, 13, 19, 0, 3, 9, 15, 21, 0, 5, 11, 17, 23, 0));
}

TEST_P(DeviceConformance, CopiesAndLaunchesKeepTheirOrder) {
  constexpr std::int64_t kBytes = 64;
  std::vector<std::uint8_t> from(kBytes, 10);
  std::vector<std::uint8_t> to(kBytes, 0);
  std::uint8_t* const data = segment(kBytes);
  auto up = std::make_unique<Signal>();
  auto down = std::make_unique<Signal>();
  up->arm();
  down->arm();
  const ByteCopy upload(data, from.data(), kBytes);
  const ByteCopy download(to.data(), data, kBytes);
  device->copy(upload.copy(), *up);
  std::vector<std::unique_ptr<Work>> works;
  for (int i = 0; i < 5; ++i) {
    works.push_back(work_of(add_run, nullptr, 3));
    works.back()->set_tensor(*device, data, kBytes);
    works.back()->launch(*device);
  }
  device->copy(download.copy(), *down);
  ASSERT_EQ(bell.wait(*down), State::done);
  EXPECT_EQ(to, std::vector<std::uint8_t>(kBytes, device->computes() ? 25 : 10));
}

TEST_P(DeviceConformance, RefusesToImportNothing) {
  std::uint8_t byte = 0;
  for (const auto& imported :
       {device->import_segment(nullptr, 64), device->import_segment(&byte, 0)}) {
    ASSERT_FALSE(imported);
    EXPECT_EQ(imported.error().code, ErrorCode::invalid_argument);
  }
}

TEST_P(DeviceConformance, TakesManyInFlight) {
  constexpr int kLaunches = 10'000;
  std::vector<std::unique_ptr<Work>> works;
  works.reserve(kLaunches);
  for (int i = 0; i < kLaunches; ++i) works.push_back(work_of(append_run, &log, i));
  for (const auto& work : works) work->launch(*device);
  ASSERT_EQ(bell.wait(works.back()->signal()), State::done);
  for (const auto& work : works) ASSERT_EQ(work->signal().state(), State::done);
  EXPECT_EQ(log.values.size(), device->computes() ? std::size_t{kLaunches} : 0u);
}

TEST_P(DeviceConformance, AllHasFiredWhenItIsGone) {
  std::vector<std::unique_ptr<Work>> works;
  for (int i = 0; i < 200; ++i) {
    works.push_back(work_of(append_run, &log, i));
    works.back()->launch(*device);
  }
  device.reset();
  bool failed_before = false;
  for (const auto& work : works) {
    const State state = work->signal().state();
    ASSERT_NE(state, State::pending);
    ASSERT_FALSE(failed_before && state == State::done) << "what is done comes first";
    failed_before = state == State::failed;
    EXPECT_EQ(failed_before, work->signal().failure.text[0] != '\0');
  }
}

TEST_P(DeviceConformance, ComesAndGoesIdle) {
  device.reset();
  EXPECT_EQ(bell.count(), 0);
}

INSTANTIATE_TEST_SUITE_P(AllKinds, DeviceConformance, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace rankcast::device
