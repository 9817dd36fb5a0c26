#include "base/fd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "base/fault_point.h"

namespace rankcast::base {
namespace {

using ::testing::HasSubstr;

bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }
bool is_inherited(int fd) { return (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0; }

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(const Message& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}
Deadline soon() { return Deadline::after(60'000'000'000); }

TEST(Fd, ClosesWhatItOwns) {
  const int number = dup(STDERR_FILENO);
  {
    Fd fd(number);
    EXPECT_FALSE(fd.empty());
    EXPECT_EQ(fd.get(), number);
    Fd moved(std::move(fd));
    Fd assigned;
    EXPECT_TRUE(assigned.empty());
    assigned = std::move(moved);
    EXPECT_EQ(assigned.get(), number);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
  Fd given_away(dup(STDERR_FILENO));
  const Fd taken(given_away.release());
  EXPECT_TRUE(given_away.empty());
  EXPECT_TRUE(is_open(taken.get()));
  Fd reset(dup(STDERR_FILENO));
  const int reset_number = reset.get();
  reset.reset();
  EXPECT_FALSE(is_open(reset_number));
  EXPECT_TRUE(reset.empty());
}

TEST(Fd, NothingThatIsMadeIsInherited) {
  auto sockets = socket_pair().value();
  auto pipe = output_pipe().value();
  const Fd pidfd = open_pidfd(getpid()).value();
  for (const int fd : {sockets.first.get(), sockets.second.get(), pipe.first.get(),
                       pipe.second.get(), pidfd.get()}) {
    EXPECT_FALSE(is_inherited(fd)) << fd;
  }
  char byte = 0;
  EXPECT_EQ(read(pipe.first.get(), &byte, 1), -1) << "reading does not wait";
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(write(pipe.second.get(), "x", 1), 1);
  EXPECT_EQ(read(pipe.first.get(), &byte, 1), 1);
}

TEST(Fd, WithoutDescriptorsLeftTheCallSaysWhatToDo) {
  const auto expect_told = [](const char* point, auto make) {
    arm_fault_point(point);
    const auto made = make();
    EXPECT_EQ(armed_fault_points(), 0) << point;
    ASSERT_FALSE(made) << point;
    EXPECT_EQ(made.error().code, ErrorCode::out_of_memory);
    EXPECT_THAT(made.error().text, HasSubstr("ulimit -n")) << point;
  };
  expect_told("base.socket_pair", [] { return socket_pair(); });
  expect_told("base.output_pipe", [] { return output_pipe(); });
  expect_told("base.pidfd", [] { return open_pidfd(getpid()); });
  const auto nobody = open_pidfd(0x3fffffff);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::internal);
}

TEST(Messages, StayApartAndCarryDescriptors) {
  auto [left, right] = socket_pair().value();
  auto pipe = output_pipe().value();
  ASSERT_TRUE(send_message(left.get(), bytes_of("first"), {}).ok());
  const std::array fds{pipe.second.get(), pipe.first.get()};
  const std::string large(50'000, 'x');
  ASSERT_TRUE(send_message(left.get(), bytes_of(large), fds).ok());

  const Message first = receive_message(right.get(), soon()).value();
  EXPECT_EQ(text_of(first), "first");
  EXPECT_TRUE(first.fds.empty());
  const Message second = receive_message(right.get(), soon()).value();
  EXPECT_EQ(text_of(second), large);
  ASSERT_EQ(second.fds.size(), 2u);
  EXPECT_FALSE(is_inherited(second.fds[0].get()));
  ASSERT_EQ(write(second.fds[0].get(), "y", 1), 1) << "the same pipe";
  char byte = 0;
  EXPECT_EQ(read(pipe.first.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'y');

  const auto none = receive_message(right.get(), Deadline::at(0));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::deadline_exceeded);
}

TEST(Messages, AWaitingReceiverIsWoken) {
  auto [left, right] = socket_pair().value();
  std::string received;
  std::thread receiver(
      [&, fd = right.get()] { received = text_of(receive_message(fd, soon()).value()); });
  EXPECT_TRUE(send_message(left.get(), bytes_of("now"), {}).ok());
  receiver.join();
  EXPECT_EQ(received, "now");
}

TEST(Messages, AReceiverThatTakesNothingIsAnErrorAndNoHang) {
  auto [left, right] = socket_pair().value();
  const std::string text(1000, 'x');
  Status status;
  int sent = 0;
  while (status.ok() && sent < 1'000'000) {
    status = send_message(left.get(), bytes_of(text), {});
    if (status.ok()) ++sent;
  }
  EXPECT_EQ(status.code, ErrorCode::out_of_memory);
  EXPECT_GT(sent, 10);
  for (int i = 0; i < sent; ++i) ASSERT_TRUE(receive_message(right.get(), soon()));
  EXPECT_TRUE(send_message(left.get(), bytes_of(text), {}).ok()) << "there is room again";
}

TEST(Messages, TheOtherEndsDeathIsTold) {
  auto [left, right] = socket_pair().value();
  ASSERT_TRUE(send_message(right.get(), bytes_of("last"), {}).ok());
  right.reset();
  EXPECT_EQ(send_message(left.get(), bytes_of("x"), {}).code, ErrorCode::rank_lost);
  EXPECT_EQ(text_of(receive_message(left.get(), soon()).value()), "last");
  EXPECT_TRUE(receive_message(left.get(), soon()).value().bytes.empty());
  EXPECT_TRUE(receive_message(left.get(), soon()).value().bytes.empty()) << "again";
}

TEST(Messages, WhatIsNoSocketIsAnError) {
  const Fd file(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(send_message(file.get(), bytes_of("x"), {}).code, ErrorCode::internal);
  const auto received = receive_message(file.get(), soon());
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::internal);
}

// Descriptors of a message that is too large for its receiver are not left open.
TEST(Messages, MoreDescriptorsThanAllowedAreAnErrorAndLeaveNothing) {
  auto [left, right] = socket_pair().value();
  std::array<int, kMaxSentFds + 4> fds{};
  fds.fill(STDERR_FILENO);
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(fds))> control{};
  std::byte byte{1};
  iovec part{&byte, 1};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* message = CMSG_FIRSTHDR(&header);
  message->cmsg_level = SOL_SOCKET;
  message->cmsg_type = SCM_RIGHTS;
  message->cmsg_len = CMSG_LEN(sizeof(fds));
  std::memcpy(CMSG_DATA(message), fds.data(), sizeof(fds));
  ASSERT_EQ(sendmsg(left.get(), &header, 0), 1);
  const int before = dup(STDERR_FILENO);
  close(before);
  const auto received = receive_message(right.get(), soon());
  ASSERT_FALSE(received);
  EXPECT_THAT(received.error().text, HasSubstr("cut"));
  const Fd after(dup(STDERR_FILENO));
  EXPECT_EQ(after.get(), before) << "the lowest free number is the same";
}

TEST(WaitReadable, EndsAtTheDeadlineOrWhenThereIsSomething) {
  auto pipe = output_pipe().value();
  EXPECT_FALSE(wait_readable(pipe.first.get(), Deadline::at(0)));
  EXPECT_FALSE(wait_readable(pipe.first.get(), Deadline::after(1'000'000)));
  ASSERT_EQ(write(pipe.second.get(), "x", 1), 1);
  EXPECT_TRUE(wait_readable(pipe.first.get(), Deadline::at(0)));
  EXPECT_TRUE(wait_readable(pipe.first.get(), Deadline::never()));
  char byte = 0;
  EXPECT_EQ(read(pipe.first.get(), &byte, 1), 1);
  auto other = output_pipe().value();
  EXPECT_FALSE(wait_either_readable(pipe.first.get(), other.first.get(), Deadline::at(0)));
  ASSERT_EQ(write(other.second.get(), "x", 1), 1);
  EXPECT_TRUE(wait_either_readable(pipe.first.get(), other.first.get(), Deadline::never()));
  EXPECT_TRUE(wait_either_readable(other.first.get(), pipe.first.get(), Deadline::never()));
  pipe.second.reset();
  EXPECT_TRUE(wait_readable(pipe.first.get(), Deadline::never())) << "the end is told as well";
}

}  // namespace
}  // namespace rankcast::base
