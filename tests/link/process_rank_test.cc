// A process rank by itself: what it does when its host is none, another one, or dead.
#include "link/process_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/child_process.h"
#include "base/event_fd.h"
#include "base/greeting.h"
#include "base/segment.h"
#include "link/control.h"
#include "link/process_messages.h"
#include "link/ranks.h"
#include "rankcast/version.h"

namespace rankcast::link {
namespace {

using ::testing::HasSubstr;

class ProcessRank : public ::testing::Test {
 protected:
  ProcessRank() {
    std::strncpy(hello_.version, RANKCAST_VERSION_STRING, sizeof(hello_.version) - 1);
    hello_.control_bytes = memory_.memory.bytes();
    const std::vector<std::string> arguments{"1000"};
    host_ = base::ChildProcess::spawn("/bin/sleep", arguments, {}).value();
  }

  void start(bool with_socket = true) {
    rank_ = base::ChildProcess::spawn(RANKCAST_TEST_LINK_RANK, {},
                                      {.standard_error = errors_.second.get(),
                                       .third = with_socket ? sockets_.second.get() : -1})
                .value();
    sockets_.second.reset();
    errors_.second.reset();
  }
  base::Status send(std::string_view text) {
    const std::array fds{memory_.fd.get(), event_.fd(), host_.pidfd()};
    return base::send_greeting(sockets_.first.get(), hello_, text, fds);
  }
  std::string end() {
    EXPECT_TRUE(base::wait_readable(rank_.pidfd(), hang_limit()));
    EXPECT_TRUE(rank_.reap());
    return rank_.end();
  }
  std::string errors() {
    std::array<char, 4096> buffer{};
    const ssize_t count = read(errors_.first.get(), buffer.data(), buffer.size());
    return {buffer.data(), count < 0 ? 0 : static_cast<std::size_t>(count)};
  }
  void expect_refused(const std::string& word) {
    EXPECT_EQ(end(), "exited with status 2");
    const std::string said = errors();
    EXPECT_THAT(said, HasSubstr(word));
    EXPECT_THAT(said, HasSubstr("started by a mesh"));
  }
  bool ready() {
    return eventually(
        [&] { return base::load_seq_cst(control_.channel(0).state) == RankState::ready; });
  }

  base::SharedSegment memory_ =
      base::Segment::create_shared(Control::bytes_needed(1, 16, Area::bytes_needed(1))).value();
  Control control_ = Control::create(memory_.memory.base(), 1, 16, Area::bytes_needed(1));
  std::pair<base::Fd, base::Fd> sockets_ = base::socket_pair().value();
  std::pair<base::Fd, base::Fd> errors_ = base::output_pipe().value();
  base::EventFd event_ = base::EventFd::create().value();
  Hello hello_;
  base::ChildProcess host_;  // what the rank takes for its host
  base::ChildProcess rank_;
};

TEST_F(ProcessRank, StartedByHandItSaysWhatItIsFor) {
  start(false);
  expect_refused("rankcast-rank");
}

TEST_F(ProcessRank, AHostThatIsGoneBeforeItSpeaksEndsIt) {
  start();
  sockets_.first.reset();
  expect_refused("no host");
}

TEST_F(ProcessRank, WhatIsNoHelloIsRefused) {
  start();
  const std::array<std::byte, 300> garbage{std::byte{7}};
  ASSERT_TRUE(base::send_message(sockets_.first.get(), garbage, {}).ok());
  expect_refused("no host's greeting");
}

TEST_F(ProcessRank, AHostOfAnotherVersionIsRefused) {
  start();
  std::strncpy(hello_.version, "0.0.9", sizeof(hello_.version) - 1);
  ASSERT_TRUE(send("").ok());
  expect_refused("the host is Rankcast 0.0.9, this is " RANKCAST_VERSION_STRING);
}

TEST_F(ProcessRank, ARankOutsideOfTheMeshIsRefused) {
  start();
  hello_.rank = 1;
  ASSERT_TRUE(send("").ok());
  expect_refused("rank 1 of 1");
}

TEST_F(ProcessRank, ControlMemoryThatIsNoneIsRefused) {
  start();
  std::memset(memory_.memory.base(), 0, 64);
  ASSERT_TRUE(send("").ok());
  expect_refused("control memory");
}

TEST_F(ProcessRank, ControlMemoryOfAnotherSizeIsRefused) {
  start();
  hello_.control_bytes = memory_.memory.bytes() * 2;
  ASSERT_TRUE(send("").ok());
  expect_refused("sealed segment");
}

TEST_F(ProcessRank, EndsWhenItsHostDies) {
  start();
  ASSERT_TRUE(send(kGood).ok());
  ASSERT_TRUE(ready());
  EXPECT_FALSE(rank_.reap());
  host_.kill();
  EXPECT_EQ(end(), "exited with status 3");
}

TEST_F(ProcessRank, EndsWhenItsHostDiesAlsoInTheMiddleOfAKernel) {
  start();
  ASSERT_TRUE(send(kGood).ok());
  ASSERT_TRUE(ready());
  HostRing ring(control_.channel(0).tail, control_.channel(0).head, control_.slots(0));
  ring.write(std::bit_cast<RecordBytes>(Message{.kind = Message::wait_hard, .run = 1, .value = 9}));
  ring.publish();
  control_.doorbell().ring_asleep(base::RankSet::of(0));
  ASSERT_TRUE(eventually([&] { return base::load_seq_cst(control_.channel(0).head.count) == 1; }));
  host_.kill();
  EXPECT_EQ(end(), "exited with status 3");
}

TEST_F(ProcessRank, AHostThatGivesItsSocketUpIsNotDead) {
  start();
  ASSERT_TRUE(send(kGood).ok());
  ASSERT_TRUE(ready());
  sockets_.first.reset();
  HostRing ring(control_.channel(0).tail, control_.channel(0).head, control_.slots(0));
  ring.write(std::bit_cast<RecordBytes>(Message{.kind = Message::note, .run = 1}));
  ring.write(std::bit_cast<RecordBytes>(Message{.kind = Message::stop}));
  ring.publish();
  control_.doorbell().ring_asleep(base::RankSet::of(0));
  EXPECT_EQ(end(), "exited with status 0");
  EXPECT_TRUE(control_.channel(0).timeline.reached(base::TimelineValue::make(1, 1)));
}

}  // namespace
}  // namespace rankcast::link
