#include "base/event_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <utility>

#include "base/fault_point.h"

namespace rankcast::base {
namespace {

bool readable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  return poll(&waiting, 1, 0) == 1;
}

TEST(EventFdTest, NotificationsAreOneUntilDrained) {
  const EventFd event = EventFd::create().value();
  EXPECT_FALSE(readable(event.fd()));
  EXPECT_FALSE(event.drain());
  event.notify();
  event.notify();
  EXPECT_TRUE(readable(event.fd()));
  EXPECT_TRUE(event.drain());
  EXPECT_FALSE(event.drain());
}

TEST(EventFdTest, IsNotInheritedAndMoves) {
  EventFd event = EventFd::create().value();
  EXPECT_NE(fcntl(event.fd(), F_GETFD) & FD_CLOEXEC, 0);
  const int fd = event.fd();
  EventFd moved = std::move(event);
  EXPECT_EQ(moved.fd(), fd);
  moved = EventFd();
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
  const EventFd adopted = EventFd::adopt(dup(0));
  EXPECT_GE(adopted.fd(), 0);
}

TEST(EventFdTest, NoDescriptorLeft) {
  arm_fault_point("base.eventfd");
  const auto refused = EventFd::create();
  EXPECT_EQ(armed_fault_points(), 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().text.find("open files"), std::string::npos);
}

}  // namespace
}  // namespace rankcast::base
