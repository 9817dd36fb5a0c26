#include "memory/pins.h"

#include <gtest/gtest.h>

namespace rankcast::memory {
namespace {

constexpr Block kFirst{.segment = 0, .node = 3, .offset = 0, .bytes = 256};
constexpr Block kSecond{.segment = 0, .node = 4, .offset = 256, .bytes = 512};

TEST(PinsTest, ABlockIsCountedOnceHoweverOftenItIsPinned) {
  Pins pins;
  EXPECT_TRUE(pins.empty());
  pins.add(0, kFirst);
  pins.add(0, kFirst);
  pins.add(0, kSecond);
  EXPECT_EQ(pins.bytes(), 768U);
  pins.add(1, kFirst);  // another rank's block of the same number
  EXPECT_EQ(pins.bytes(), 1024U);
  EXPECT_FALSE(pins.remove(0, kFirst));
  EXPECT_EQ(pins.bytes(), 1024U);
  EXPECT_FALSE(pins.remove(0, kFirst));
  EXPECT_FALSE(pins.remove(0, kSecond));
  EXPECT_EQ(pins.bytes(), 256U);
  EXPECT_FALSE(pins.empty());
  EXPECT_FALSE(pins.remove(1, kFirst));
  EXPECT_TRUE(pins.empty());
  EXPECT_EQ(pins.bytes(), 0U);
}

TEST(PinsTest, AFreedBlockIsGivenBackByTheLastPin) {
  Pins pins;
  EXPECT_FALSE(pins.hold_back(0, kFirst)) << "nobody has pinned it";
  pins.add(0, kFirst);
  pins.add(0, kFirst);
  EXPECT_FALSE(pins.hold_back(1, kFirst)) << "another rank's";
  EXPECT_FALSE(pins.hold_back(0, kSecond));
  EXPECT_TRUE(pins.hold_back(0, kFirst));
  EXPECT_FALSE(pins.remove(0, kFirst));
  EXPECT_TRUE(pins.remove(0, kFirst));
  // The number is the heap's to give again.
  pins.add(0, kFirst);
  EXPECT_FALSE(pins.remove(0, kFirst));
}

TEST(PinsDeathTest, APinThatIsNotThereIsOurBug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Pins pins;
  EXPECT_DEATH(pins.remove(0, kFirst), "check failed");
}

}  // namespace
}  // namespace rankcast::memory
