#include "base/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fault_point.h"

namespace rankcast::base {
namespace {

using ::testing::HasSubstr;

/// A shell command with pipes for what it prints.
struct Shell {
  std::pair<Fd, Fd> out = output_pipe().value();
  std::pair<Fd, Fd> err = output_pipe().value();
  ChildProcess process;

  explicit Shell(const std::string& command, int third = -1) {
    const std::vector<std::string> arguments{"-c", command};
    process = ChildProcess::spawn("/bin/sh", arguments,
                                  {.standard_output = out.second.get(),
                                   .standard_error = err.second.get(),
                                   .third = third})
                  .value();
    out.second.reset();
    err.second.reset();
  }

  const std::string& end() {
    wait_readable(process.pidfd(), Deadline::never());
    EXPECT_TRUE(process.reap());
    return process.end();
  }
};

/// Until its end.
std::string read_all(const Fd& fd) {
  std::string text;
  std::array<char, 1000> buffer{};
  for (;;) {
    wait_readable(fd.get(), Deadline::never());
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

/// "name: value" of /proc/PID/status.
std::string status_line(int pid, const std::string& name) {
  Shell shell("grep '^" + name + ":' /proc/" + std::to_string(pid) + "/status | cut -f2");
  std::string text = read_all(shell.out.first);
  shell.end();
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

TEST(ChildProcess, PrintsEndsAndIsReapedOnce) {
  Shell shell("echo out; echo err >&2; exit 7");
  EXPECT_GT(shell.process.pid(), 0);
  EXPECT_EQ(read_all(shell.out.first), "out\n");
  EXPECT_EQ(read_all(shell.err.first), "err\n");
  EXPECT_EQ(shell.end(), "exited with status 7");
  EXPECT_TRUE(shell.process.reaped());
  EXPECT_FALSE(shell.process.reap()) << "once";
  EXPECT_EQ(waitpid(shell.process.pid(), nullptr, WNOHANG), -1) << "no zombie is left";
  shell.process.kill();
}

TEST(ChildProcess, IsKilledAndSaysBySignal) {
  Shell shell("exec sleep 1000");
  EXPECT_FALSE(shell.process.reap()) << "it runs";
  EXPECT_FALSE(wait_readable(shell.process.pidfd(), Deadline::at(0)));
  shell.process.kill();
  EXPECT_EQ(shell.end(), "was killed by signal 9 (Killed)");
  Shell other("kill -SEGV $$");
  EXPECT_EQ(other.end(), "was killed by signal 11 (Segmentation fault)");
}

TEST(ChildProcess, HasNoDescriptorsButThoseNamed) {
  const Fd leaked(fcntl(STDERR_FILENO, F_DUPFD, 20));  // inherited, were it not closed
  auto sockets = socket_pair().value();
  Shell shell("ls /proc/self/fd", sockets.second.get());
  // The last is the folder that ls has opened itself.
  EXPECT_EQ(read_all(shell.out.first), "0\n1\n2\n3\n4\n");
  shell.end();
  Shell without("ls /proc/self/fd");
  EXPECT_EQ(read_all(without.out.first), "0\n1\n2\n3\n");
  without.end();
  Shell input("cat");
  EXPECT_EQ(input.end(), "exited with status 0") << "standard input is empty";
}

TEST(ChildProcess, GetsItsDescriptorsWhateverNumbersTheyHaveHere) {
  // The third descriptor of the child lies at number 1 or 2 of this process, and so on round.
  auto sockets = socket_pair().value();
  const Fd kept_out(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 30));
  fflush(stdout);
  ASSERT_EQ(dup2(sockets.second.get(), STDOUT_FILENO), STDOUT_FILENO);
  std::pair<Fd, Fd> out = output_pipe().value();
  const std::vector<std::string> arguments{"-c", "echo text; echo over the socket >&3"};
  auto spawned = ChildProcess::spawn("/bin/sh", arguments,
                                     {.standard_output = out.second.get(), .third = STDOUT_FILENO});
  dup2(kept_out.get(), STDOUT_FILENO);
  ASSERT_TRUE(spawned) << spawned.error().text;
  out.second.reset();
  EXPECT_EQ(read_all(out.first), "text\n");
  const Message message =
      receive_message(sockets.first.get(), Deadline::after(60'000'000'000)).value();
  EXPECT_EQ(message.bytes.size(), std::string_view("over the socket\n").size());
}

TEST(ChildProcess, IsInAGroupOfItsOwnWithNoSignalBlocked) {
  sigset_t some;
  sigset_t before;
  sigemptyset(&some);
  sigaddset(&some, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &some, &before);
  const auto ignored_before = signal(SIGUSR2, SIG_IGN);
  Shell shell("exec sleep 1000");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  signal(SIGUSR2, ignored_before);
  EXPECT_EQ(getpgid(shell.process.pid()), shell.process.pid());
  for (const char* set : {"SigBlk", "SigIgn"}) {
    const std::uint64_t signals = std::stoull(status_line(shell.process.pid(), set), nullptr, 16);
    EXPECT_EQ(signals & 0x7fffffff, 0u) << set << ", of those that have names";
  }
}

TEST(ChildProcess, DestructionKillsAndReaps) {
  int pid = -1;
  {
    Shell shell("exec sleep 1000");
    pid = shell.process.pid();
    ChildProcess moved(std::move(shell.process));
    EXPECT_EQ(moved.pid(), pid);
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
  const ChildProcess never;
  EXPECT_EQ(never.pidfd(), -1);
}

TEST(ChildProcess, WhatCannotBeStartedIsNamed) {
  const auto refused = [](const std::string& program) {
    const auto spawned = ChildProcess::spawn(program, {}, {});
    EXPECT_FALSE(spawned) << program;
    return spawned ? Status() : spawned.error();
  };
  for (const std::string program : {"/no/such/program", "/etc/passwd", "/"}) {
    const Status status = refused(program);
    EXPECT_EQ(status.code, ErrorCode::unsupported) << program;
    EXPECT_THAT(status.text, HasSubstr("cannot start \"" + program + "\""));
  }
  EXPECT_THAT(refused("/no/such/program").text, HasSubstr("No such file"));

  arm_fault_point("base.spawn");
  EXPECT_EQ(refused("/bin/true").code, ErrorCode::out_of_memory);
  // The process is there, its descriptor is not to be had: nothing is left of it.
  arm_fault_point("base.pidfd");
  EXPECT_EQ(refused("/bin/true").code, ErrorCode::out_of_memory);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// Whatever call it is that finds no descriptor left.
TEST(ChildProcess, WithFewDescriptorsItSaysWhatToDo) {
  const auto pipe = output_pipe().value();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  for (const rlim_t few : {8u, 16u, 17u}) {
    const rlimit tight{few, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
    const auto spawned = ChildProcess::spawn(
        "/bin/true", {},
        {.standard_output = pipe.second.get(), .standard_error = pipe.second.get()});
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_FALSE(spawned) << few;
    EXPECT_EQ(spawned.error().code, ErrorCode::out_of_memory) << spawned.error().text;
    EXPECT_THAT(spawned.error().text, HasSubstr("ulimit -n"));
  }
}

}  // namespace
}  // namespace rankcast::base
