#include "memory/poison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define RANKCAST_WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RANKCAST_WITH_ASAN 1
#endif
#endif

namespace rankcast::memory {
namespace {

#ifdef RANKCAST_WITH_ASAN
constexpr bool kAsan = true;
#else
constexpr bool kAsan = false;
#endif

TEST(PoisonTest, OnlyTheBytesNamedArePoisoned) {
  alignas(256) static unsigned char data[768];
  poison(data + 256, 256, false);
  EXPECT_FALSE(is_poisoned(data + 255));
  EXPECT_EQ(is_poisoned(data + 256), kAsan);
  EXPECT_EQ(is_poisoned(data + 511), kAsan);
  EXPECT_FALSE(is_poisoned(data + 512));
  unpoison(data + 256, 256);
  EXPECT_FALSE(is_poisoned(data + 256));
}

TEST(PoisonTest, FillsWhenTold) {
  std::vector<unsigned char> data(768, 1);
  poison(data.data() + 256, 256, true);
  unpoison(data.data() + 256, 256);
  EXPECT_EQ(std::count(data.begin(), data.end(), 1), 512);
  EXPECT_EQ(std::count(data.begin() + 256, data.begin() + 512, kPoisonByte), 256);
  poison(data.data(), 256, false);
  unpoison(data.data(), 256);
  EXPECT_EQ(std::count(data.begin(), data.end(), 1), 512);
}

// The environment is read once in a process, so each value is tried in a process of its own.
void expect_fills(const char* value, bool fills) {
  EXPECT_EXIT(
      {
        if (value == nullptr) {
          ::unsetenv("RANKCAST_POISON");
        } else {
          ::setenv("RANKCAST_POISON", value, 1);
        }
        std::_Exit(poison_fills() ? 10 : 11);
      },
      testing::ExitedWithCode(fills ? 10 : 11), "")
      << (value == nullptr ? "(unset)" : value);
}

TEST(PoisonDeathTest, EnvironmentTurnsFillingOn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_fills("1", true);
  expect_fills(nullptr, false);
  for (const char* value : {"", "0", "2", "1 ", "yes"}) expect_fills(value, false);
}

}  // namespace
}  // namespace rankcast::memory
