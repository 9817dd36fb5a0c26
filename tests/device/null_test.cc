// What is special about null: nothing is computed, and work can be late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "device/bell.h"
#include "device/byte_copy.h"
#include "device/device.h"

namespace rankcast::device {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using State = Signal::State;

constexpr const char* kTenSeconds = "null:0?delay_us=10000000";

TEST(NullDevice, WithoutDelayIsDoneInsideTheCall) {
  Bell bell;
  const auto device = device_of("null:0", bell);
  Signal signal;
  signal.arm();
  device->launch({}, signal);
  EXPECT_EQ(signal.state(), State::done);
  std::vector<std::uint8_t> from(8, 1);
  std::vector<std::uint8_t> to(8, 0);
  signal.arm();
  const ByteCopy all(to.data(), from.data(), from.size());
  device->copy(all.copy(), signal);
  EXPECT_EQ(signal.state(), State::done);
  EXPECT_EQ(to, from);
  EXPECT_EQ(bell.count(), 0) << "the caller is not told what it sees anyway";
}

TEST(NullDevice, WorkThatIsPendingFailsWhenTheDeviceGoes) {
  Bell bell;
  auto device = device_of(kTenSeconds, bell);
  const std::vector<std::uint8_t> from(8, 1);
  std::vector<std::uint8_t> to(8, 0);
  const ByteCopy all(to.data(), from.data(), from.size());
  std::vector<std::unique_ptr<Signal>> signals;
  for (int i = 0; i < 6; ++i) {
    signals.push_back(std::make_unique<Signal>());
    signals.back()->arm();
    if (i % 2 == 0) {
      device->launch({}, *signals.back());
    } else {
      device->copy(all.copy(), *signals.back());
    }
    EXPECT_EQ(signals.back()->state(), State::pending);
  }
  device.reset();
  for (const auto& signal : signals) {
    EXPECT_EQ(signal->state(), State::failed);
    EXPECT_THAT(signal->failure.text, HasSubstr("closed"));
    EXPECT_EQ(signal->failure.argument, -1);
  }
  EXPECT_THAT(to, Each(0)) << "a failed copy has not touched its destination";
  EXPECT_EQ(bell.count(), 6);
}

TEST(NullDevice, LateCopiesSeeWhatEarlierOnesWrote) {
  Bell bell;
  const auto device = device_of("null:0?delay_us=1000", bell);
  std::vector<std::uint8_t> first(64, 1);
  std::vector<std::uint8_t> second(64, 0);
  std::vector<std::uint8_t> third(64, 0);
  Signal one;
  Signal two;
  one.arm();
  two.arm();
  const ByteCopy there(second.data(), first.data(), first.size());
  const ByteCopy on(third.data(), second.data(), second.size());
  device->copy(there.copy(), one);
  device->copy(on.copy(), two);
  EXPECT_EQ(bell.wait(two), State::done);
  EXPECT_EQ(one.state(), State::done);
  EXPECT_EQ(third, first);
}

TEST(NullDevice, SaysHowLateItIs) {
  Bell bell;
  EXPECT_THAT(device_of("null:0?delay_us=50", bell)->description(), HasSubstr("50 us"));
  EXPECT_FALSE(device_of("null:0", bell)->computes());
}

}  // namespace
}  // namespace rankcast::device
