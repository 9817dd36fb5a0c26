// Which devices there are, and what is refused before one is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/bell.h"
#include "device/device.h"

namespace rankcast::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DeviceRegistry, KnowsItsKinds) {
  std::vector<std::string> names;
  for (const DeviceKind& kind : device_kinds()) {
    names.emplace_back(kind.name);
    EXPECT_TRUE(kind.available().ok()) << kind.name;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("cpu", "null"));
}

TEST(DeviceRegistry, TakesWhatItKnows) {
  Bell bell;
  for (const char* text :
       {"cpu:0", "cpu:100000", "null:3", "null:0?delay_us=0", "null:0?delay_us=10000000"}) {
    const base::Status status = check_device(spec_of(text));
    EXPECT_TRUE(status.ok()) << text << ": " << status.text;
    EXPECT_TRUE(create_device(spec_of(text), bell).has_value()) << text;
  }
}

/// Both ways of asking refuse it alike.
std::string refusal(const char* text) {
  Bell bell;
  const base::Status status = check_device(spec_of(text));
  EXPECT_EQ(status.code, ErrorCode::invalid_argument) << text;
  const auto device = create_device(spec_of(text), bell);
  EXPECT_EQ(device.has_value() ? "made" : device.error().text, status.text);
  return status.text;
}

TEST(DeviceRegistry, NamesTheKindsForOneThatNobodyHas) {
  EXPECT_THAT(refusal("warp:2"),
              AllOf(HasSubstr("warp:2"), HasSubstr("no kind \"warp\""), HasSubstr("cpu, null")));
}

TEST(DeviceRegistry, NamesTheOptionThatAKindLacks) {
  EXPECT_THAT(refusal("cpu:1?delay_us=3"),
              AllOf(HasSubstr("cpu:1?delay_us=3"), HasSubstr("no option \"delay_us\""),
                    HasSubstr("takes none")));
  EXPECT_THAT(refusal("null:0?delay_us=3&speed=4"),
              AllOf(HasSubstr("no option \"speed\""), HasSubstr("takes delay_us")));
}

TEST(DeviceRegistry, NamesTheValueOfADelayThatIsNone) {
  for (const char* value :
       {"-1", "+5", "1.5", "5x", "abc", "0x10", "10000001", "99999999999999999999"}) {
    const std::string text = std::string("null:0?delay_us=") + value;
    EXPECT_THAT(refusal(text.c_str()), AllOf(HasSubstr(std::string("\"") + value + "\""),
                                             HasSubstr("delay_us"), HasSubstr("10000000")));
  }
}

}  // namespace
}  // namespace rankcast::device
