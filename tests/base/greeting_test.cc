#include "base/greeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "base/event_fd.h"

namespace rankcast::base {
namespace {

struct Header {
  static constexpr std::uint64_t kMagic = 0x1234'5678'9abc'def0;
  std::uint64_t magic = kMagic;
  std::uint64_t number = 0;
};

class GreetingTest : public ::testing::Test {
 protected:
  void expect_refused(const char* words) {
    const auto greeting = receive_greeting<Header>(ends_.second.get(), 1);
    ASSERT_FALSE(greeting);
    EXPECT_EQ(greeting.error().code, ErrorCode::internal);
    EXPECT_THAT(greeting.error().text, ::testing::HasSubstr(words));
  }

  std::pair<Fd, Fd> ends_ = socket_pair().value();
  EventFd event_ = EventFd::create().value();
  std::array<int, 1> fds_{event_.fd()};
};

TEST_F(GreetingTest, ArrivesWhole) {
  const std::string text("any\0bytes\xff", 10);
  ASSERT_TRUE(send_greeting(ends_.first.get(), Header{.number = 7}, text, fds_).ok());
  ASSERT_TRUE(send_greeting(ends_.first.get(), Header{.number = 8}, "", fds_).ok());
  const auto first = receive_greeting<Header>(ends_.second.get(), 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->header.number, 7u);
  EXPECT_EQ(first->text, text);
  ASSERT_EQ(first->fds.size(), 1u);
  EXPECT_FALSE(first->fds.front().empty());
  const auto second = receive_greeting<Header>(ends_.second.get(), 1);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->header.number, 8u);
  EXPECT_EQ(second->text, "");
}

TEST_F(GreetingTest, WhatIsNoneIsRefused) {
  const auto send = [&](Header header, std::span<const int> fds) {
    ASSERT_TRUE(send_greeting(ends_.first.get(), header, "text", fds).ok());
  };
  send({.magic = 1}, fds_);
  expect_refused("no host's greeting");
  send({}, {});
  expect_refused("no host's greeting");
  const std::array two{event_.fd(), event_.fd()};
  send({}, two);
  expect_refused("no host's greeting");
  const std::array<std::byte, sizeof(Header) - 1> little{};
  ASSERT_TRUE(send_message(ends_.first.get(), little, fds_).ok());
  expect_refused("no host's greeting");
  ends_.first.reset();
  expect_refused("no host any more");
}

TEST_F(GreetingTest, WithoutASocketThereIsNone) {
  const auto greeting = receive_greeting<Header>(event_.fd(), 1);
  ASSERT_FALSE(greeting);
  EXPECT_EQ(greeting.error().code, ErrorCode::internal);
}

}  // namespace
}  // namespace rankcast::base
