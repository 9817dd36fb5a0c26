#include "device/device_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <string>

namespace rankcast::device {
namespace {

using testing::HasSubstr;

std::string parsed(std::string_view list) {
  const auto devices = parse_device_list(list);
  if (!devices) return "error: " + devices.error().text;
  std::string text;
  for (const DeviceSpec& device : *devices) {
    if (!text.empty()) text += ',';
    text += device.to_string();
  }
  return text;
}

void expect_refused(std::string_view list, int column, std::initializer_list<std::string> words) {
  const auto devices = parse_device_list(list);
  ASSERT_FALSE(devices) << list;
  EXPECT_EQ(devices.error().code, ErrorCode::invalid_argument);
  const std::string& text = devices.error().text;
  EXPECT_THAT(text, HasSubstr("column " + std::to_string(column) + ":"));
  EXPECT_THAT(text, HasSubstr("accepted are groups [kind:]n[-m]"));
  for (const std::string& word : words) EXPECT_THAT(text, HasSubstr(word));
}

TEST(DeviceListTest, Accepts) {
  const std::pair<const char*, const char*> lists[] = {
      {"0", "cpu:0"},
      {"cpu:0", "cpu:0"},
      {"0,1,2", "cpu:0,cpu:1,cpu:2"},
      {"cpu:0-3", "cpu:0,cpu:1,cpu:2,cpu:3"},
      {"3-3", "cpu:3"},
      {"null:1,0", "null:1,null:0"},
      {"null:0,cpu:0,1", "null:0,cpu:0,cpu:1"},
      {"2147483647", "cpu:2147483647"},
      {"2147483646-2147483647", "cpu:2147483646,cpu:2147483647"},
      {"007", "cpu:7"},
      {" cpu:0 ,\t1 \n", "cpu:0,cpu:1"},
      {"null:0-1?delay_us=50", "null:0?delay_us=50,null:1?delay_us=50"},
      {"null:0?delay_us=50,1", "null:0?delay_us=50,null:1"},
      {"null:0?b=2&a=1", "null:0?b=2&a=1"},
      {"x_2:0?path=/a/b=c;d", "x_2:0?path=/a/b=c;d"},
      {"null:0?delay_us=50 , cpu:0", "null:0?delay_us=50,cpu:0"},
  };
  for (const auto& [list, devices] : lists) EXPECT_EQ(parsed(list), devices) << list;
}

TEST(DeviceListTest, SpecsHaveTheirParts) {
  const auto devices = parse_device_list("cpu:5,null:7?delay_us=50&fail=x");
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ((*devices)[0].kind, "cpu");
  EXPECT_EQ((*devices)[0].ordinal, 5);
  EXPECT_TRUE((*devices)[0].options.empty());
  EXPECT_EQ((*devices)[0].name(), "cpu:5");
  EXPECT_EQ((*devices)[1].name(), "null:7");
  EXPECT_THAT((*devices)[1].options,
              testing::ElementsAre(DeviceOption{.key = "delay_us", .value = "50"},
                                   DeviceOption{.key = "fail", .value = "x"}));
}

TEST(DeviceListTest, NamesNothing) {
  expect_refused("", 1, {"device list \"\"", "no device is named"});
  expect_refused("  ", 3, {"no device is named"});
}

TEST(DeviceListTest, NumberIsMissing) {
  expect_refused("cpu:", 5, {"\"cpu:\"", "number of a device", "found the end"});
  expect_refused("cpu:x", 5, {"number of a device", "found \"x\""});
  expect_refused("0,", 3, {"number of a device", "found the end"});
  expect_refused(",0", 1, {"number of a device", "found \",\""});
  expect_refused("0,,1", 3, {"number of a device", "found \",\""});
  expect_refused("0-", 3, {"number of a device", "found the end"});
  expect_refused("-1", 1, {"number of a device", "found \"-\""});
  expect_refused("0--1", 3, {"number of a device", "found \"-\""});
  expect_refused("cpu: 0", 5, {"number of a device", "found \" \""});
  expect_refused("+1", 1, {"found \"+\""});
}

TEST(DeviceListTest, KindIsNotOne) {
  expect_refused("cpu", 4, {"expected ':' and a number after the kind \"cpu\"", "found the end"});
  expect_refused("gpu 0", 4, {"after the kind \"gpu\"", "found \" \""});
  expect_refused("CPU:0", 1, {"found \"C\""});
  expect_refused("cPu:0", 2, {"after the kind \"c\"", "found \"P\""});
  expect_refused("0,cpu-0", 6, {"after the kind \"cpu\"", "found \"-\""});
}

TEST(DeviceListTest, SomethingFollows) {
  expect_refused("0 1", 3, {"expected ',' or the end, found \"1\""});
  expect_refused("0x1", 2, {"found \"x\""});
  expect_refused("0.5", 2, {"found \".\""});
  expect_refused("0-3-5", 4, {"found \"-\""});
  expect_refused("cpu:0:1", 6, {"found \":\""});
  expect_refused("0;1", 2, {"found \";\""});
}

TEST(DeviceListTest, NumbersAreTooLargeOrBackwards) {
  expect_refused("2147483648", 1, {"\"2147483648\"", "larger than 2147483647"});
  expect_refused("0-99999999999999999999999", 3, {"larger than 2147483647"});
  expect_refused("cpu:3-1", 7, {"range 3-1 runs backwards"});
}

TEST(DeviceListTest, DuplicatesNameBothPlaces) {
  expect_refused("0,1,0", 5, {"cpu:0 is named already, in column 1"});
  expect_refused("cpu:0-3, null:2, cpu:3", 18, {"cpu:3 is named already, in column 1"});
  expect_refused("null:1?a=1,null:1?a=2", 12, {"null:1 is named already, in column 1"});
}

TEST(DeviceListTest, OptionsAreIncomplete) {
  expect_refused("0?", 3, {"key of an option", "found the end"});
  expect_refused("0?=1", 3, {"key of an option", "found \"=\""});
  expect_refused("0?a", 4, {"'=' and a value after the option \"a\"", "found the end"});
  expect_refused("0?a=", 5, {"value for the option \"a\"", "found the end"});
  expect_refused("0?a=,1", 5, {"value for the option \"a\"", "found \",\""});
  expect_refused("0?a=1&", 7, {"key of an option", "found the end"});
  expect_refused("0?a=1&&b=2", 7, {"key of an option", "found \"&\""});
  expect_refused("0?a=1?b=2", 6, {"expected ',' or the end, found \"?\""});
  expect_refused("0?A=1", 3, {"key of an option", "found \"A\""});
  expect_refused("0?a=1&b=2&a=3", 11, {"option \"a\" is given twice"});
}

TEST(DeviceListTest, MoreThanAMeshCanHave) {
  EXPECT_EQ(parse_device_list("0-1023")->size(), kMaxDevices);
  expect_refused("0-1024", 1, {"1025 devices", "more than the 1024"});
  expect_refused("0-1023,null:0", 8, {"1025 devices"});
  expect_refused("null:0,cpu:0-2147483647", 8, {"2147483649 devices"});
}

TEST(DeviceListTest, LongListsAreRefusedShortly) {
  const std::string blanks(70'000, ' ');
  expect_refused(blanks + "0", 65'537, {"70001 characters, more than 65536"});
  const auto devices = parse_device_list(std::string(60'000, ' ') + "cpu:!");
  ASSERT_FALSE(devices);
  EXPECT_THAT(devices.error().text, HasSubstr("cpu:!\", column 60005"));
  EXPECT_LT(devices.error().text.size(), 500U);
}

TEST(DeviceListTest, MessagesAreOneLineOfPrintableCharacters) {
  const auto devices = parse_device_list(std::string_view("cpu:\n\0\x80\"", 8));
  ASSERT_FALSE(devices);
  EXPECT_THAT(devices.error().text, HasSubstr(R"("cpu:\x0a\x00\x80\"")"));
}

std::string generated_word(std::size_t longest) {
  const auto length = *rc::gen::inRange<std::size_t>(0, longest);
  std::string word(1, *rc::gen::inRange<char>('a', 'z' + 1));
  word += *rc::gen::container<std::string>(
      length, rc::gen::elementOf(std::string("abcdefghijklmnopqrstuvwxyz_0123456789")));
  return word;
}

std::vector<DeviceOption> generated_options() {
  std::set<std::string> keys;
  std::vector<DeviceOption> options;
  const int count = *rc::gen::inRange(0, 4);
  for (int i = 0; i < count; ++i) {
    std::string key = generated_word(6);
    if (!keys.insert(key).second) continue;
    std::string value = *rc::gen::nonEmpty(
        rc::gen::container<std::string>(rc::gen::elementOf(std::string("azAZ09_-+.:;/=%#@!~()"))));
    options.push_back({.key = std::move(key), .value = std::move(value)});
  }
  return options;
}

RC_GTEST_PROP(DeviceListProperty, WhatIsPrintedIsParsedAgain, ()) {
  const auto count = *rc::gen::inRange(1, 20);
  std::set<std::pair<std::string, std::int32_t>> named;
  std::vector<DeviceSpec> devices;
  std::string list;
  for (int i = 0; i < count; ++i) {
    DeviceSpec device{.kind = generated_word(4),
                      .ordinal = *rc::gen::inRange<std::int32_t>(0, INT32_MAX),
                      .options = generated_options()};
    if (!named.emplace(device.kind, device.ordinal).second) continue;
    list += (list.empty() ? "" : *rc::gen::elementOf(std::vector<std::string>{",", " ,", ", "}));
    list += device.to_string();
    devices.push_back(std::move(device));
  }
  const auto again = parse_device_list(list);
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == devices);
}

RC_GTEST_PROP(DeviceListProperty, AnythingIsParsedOrRefusedInItsBounds, ()) {
  const auto list = *rc::gen::container<std::string>(
      rc::gen::elementOf(std::string("cpunl:0123456789-,?=&_ \tx")));
  const auto devices = parse_device_list(list);
  if (devices) {
    RC_ASSERT(!devices->empty() && devices->size() <= kMaxDevices);
    std::set<std::string> names;
    for (const DeviceSpec& device : *devices) {
      RC_ASSERT(device.ordinal >= 0);
      RC_ASSERT(names.insert(device.name()).second);
    }
  } else {
    RC_ASSERT(devices.error().code == ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace rankcast::device
