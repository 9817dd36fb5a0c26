#include "base/epoll.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/fault_point.h"

namespace rankcast::base {
namespace {

bool readable(const Epoll& all) { return wait_readable(all.fd(), Deadline::at(0)); }

TEST(Epoll, IsReadableWhileOneOfItsDescriptorsIs) {
  const Epoll all = Epoll::create().value();
  EXPECT_NE(fcntl(all.fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_FALSE(readable(all));
  auto first = output_pipe().value();
  auto second = output_pipe().value();
  ASSERT_TRUE(all.add(first.first.get()).ok());
  ASSERT_TRUE(all.add(second.first.get()).ok());
  EXPECT_FALSE(readable(all));
  ASSERT_EQ(write(second.second.get(), "x", 1), 1);
  EXPECT_TRUE(readable(all));
  EXPECT_TRUE(readable(all)) << "until somebody reads";
  char byte = 0;
  ASSERT_EQ(read(second.first.get(), &byte, 1), 1);
  EXPECT_FALSE(readable(all));
  first.second.reset();
  EXPECT_TRUE(readable(all)) << "at the end of one";
  all.remove(first.first.get());
  EXPECT_FALSE(readable(all));
  all.remove(first.first.get());
}

TEST(Epoll, WhatCannotBeWatchedIsTold) {
  const Epoll all = Epoll::create().value();
  const Fd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const Status refused = all.add(file.get());
  EXPECT_EQ(refused.code, ErrorCode::internal);
  EXPECT_EQ(all.add(-1).code, ErrorCode::internal);
  arm_fault_point("base.epoll");
  const auto none = Epoll::create();
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text, ::testing::HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace rankcast::base
