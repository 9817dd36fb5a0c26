// Meshes of processes that cannot be opened: each is an error in time that names the rank and shows
// what it printed last, and nothing is left behind.
// tests: src/link/process.cc
// tests: src/link/rank_program.h
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "link/rank_program.h"
#include "mesh/support.h"
#include "support/temp_folder.h"

namespace rankcast::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Mappings of shared segments, by this process.
std::size_t shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::size_t count = 0;
  while (std::getline(maps, line)) count += line.find("memfd:rankcast") != std::string::npos;
  return count;
}

class MeshProcessOpen : public ::testing::Test {
 protected:
  MeshProcessOpen() { options_.link = "process"; }

  /// A program that stands for a rank: this shell script, which finds the real one in $RANK and
  /// "rank 2 of 4" in $1.
  void stand_in(const std::string& script) {
    const std::string real = link::find_rank_program("").value();
    options_.rank_binary = temp_.write("rank", "#!/bin/sh\nRANK='" + real + "'\n" + script + "\n");
    ASSERT_EQ(chmod(options_.rank_binary.c_str(), 0755), 0);
  }

  /// What open throws. No process, descriptor, thread or memory is left.
  Error expect_refused() {
    const std::size_t descriptors = descriptor_count();
    const std::size_t threads = thread_count();
    const auto error = error_of([&] { Mesh::open(options_); });
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(descriptor_count(), descriptors);
    EXPECT_EQ(thread_count(), threads);
    EXPECT_EQ(shared_mappings(), 0u);
    return error.value_or(Error(ErrorCode::internal, "none"));
  }

  TempFolder temp_;
  MeshOptions options_;
};

TEST_F(MeshProcessOpen, ARankThatExitsEarlyIsNamedLongBeforeTheDeadline) {
  options_.devices = "cpu:0-3";
  options_.startup_timeout = std::chrono::hours(1);
  stand_in(R"([ "$1" = "rank 2 of 4" ] || exec "$RANK"
              echo said on stdout; echo said on stderr >&2; exit 5)");
  const Error error = expect_refused();
  EXPECT_EQ(error.code(), ErrorCode::rank_lost);
  EXPECT_EQ(error.rank(), 2);
  EXPECT_THAT(error.what(), HasSubstr("rank 2"));
  EXPECT_THAT(error.what(), HasSubstr("exited with status 5"));
  EXPECT_THAT(error.what(), HasSubstr("said on stdout"));
  EXPECT_THAT(error.what(), HasSubstr("said on stderr"));
}

TEST_F(MeshProcessOpen, ARankThatExitsEarlyIsSeenWhileAnotherSaysNothing) {
  options_.devices = "cpu:0-1";
  options_.startup_timeout = std::chrono::hours(1);
  stand_in(R"([ "$1" = "rank 1 of 2" ] || exec sleep 3600
              exit 0)");
  const Error error = expect_refused();
  EXPECT_EQ(error.code(), ErrorCode::rank_lost);
  EXPECT_EQ(error.rank(), 1);
  EXPECT_THAT(error.what(), HasSubstr("exited with status 0"));
  EXPECT_THAT(error.what(), Not(HasSubstr("printed")));
}

TEST_F(MeshProcessOpen, ARankThatCrashesIsNamedWithItsSignal) {
  stand_in("echo going down >&2; kill -SEGV $$");
  const Error error = expect_refused();
  EXPECT_EQ(error.code(), ErrorCode::rank_lost);
  EXPECT_EQ(error.rank(), 0);
  EXPECT_THAT(error.what(), HasSubstr("signal 11"));
  EXPECT_THAT(error.what(), HasSubstr("going down"));
}

TEST_F(MeshProcessOpen, ARankThatNeverReportsIsNamedAtTheDeadline) {
  options_.devices = "cpu:0-7";
  options_.startup_timeout = std::chrono::milliseconds(300);
  stand_in(R"([ "$1" = "rank 6 of 8" ] || exec "$RANK"
              echo still warming up; exec sleep 3600)");
  const Error error = expect_refused();
  EXPECT_EQ(error.code(), ErrorCode::deadline_exceeded);
  EXPECT_THAT(error.what(), HasSubstr("startup_timeout"));
}

TEST_F(MeshProcessOpen, WhatASilentRankPrintedLastIsShown) {
  options_.startup_timeout = std::chrono::milliseconds(300);
  stand_in("echo still warming up; exec sleep 3600");
  const Error error = expect_refused();
  EXPECT_EQ(error.code(), ErrorCode::deadline_exceeded);
  EXPECT_EQ(error.rank(), 0);
  EXPECT_THAT(error.what(), HasSubstr("rank 0 did not report"));
  EXPECT_THAT(error.what(), HasSubstr("still warming up"));
}

// More than a pipe or a socket holds.
TEST_F(MeshProcessOpen, ARankThatWritesGarbageEverywhereIsNamed) {
  options_.startup_timeout = std::chrono::hours(1);
  stand_in("yes garbage | head -c 100000 >&2; yes nonsense | head -c 5000 >&3; exit 1");
  const Error error = expect_refused();
  EXPECT_EQ(error.code(), ErrorCode::rank_lost);
  EXPECT_EQ(error.rank(), 0);
  EXPECT_THAT(error.what(), HasSubstr("garbage"));
  EXPECT_LT(std::string(error.what()).size(), 1500u);
}

TEST_F(MeshProcessOpen, AProgramThatIsNotThereOrCannotBeRunIsNamed) {
  options_.rank_binary = temp_.path("missing");
  const Error missing = expect_refused();
  EXPECT_EQ(missing.code(), ErrorCode::unsupported);
  EXPECT_THAT(missing.what(), HasSubstr(options_.rank_binary));
  EXPECT_THAT(missing.what(), HasSubstr("rank_binary"));

  options_.rank_binary = temp_.write("text", "not a program");
  const Error text = expect_refused();
  EXPECT_EQ(text.code(), ErrorCode::unsupported);
  EXPECT_EQ(text.rank(), 0);
  EXPECT_THAT(text.what(), HasSubstr(options_.rank_binary));
}

TEST_F(MeshProcessOpen, TheEnvironmentVariableNamesTheProgram) {
  stand_in("exit 17");
  const std::string script = std::exchange(options_.rank_binary, {});
  setenv("RANKCAST_RANK_BINARY", temp_.path("missing").c_str(), 1);
  const Error missing = expect_refused();
  EXPECT_EQ(missing.code(), ErrorCode::unsupported);
  EXPECT_THAT(missing.what(), HasSubstr("RANKCAST_RANK_BINARY"));
  setenv("RANKCAST_RANK_BINARY", script.c_str(), 1);
  EXPECT_THAT(expect_refused().what(), HasSubstr("status 17"));
  unsetenv("RANKCAST_RANK_BINARY");
  Mesh::open(options_).close();
}

TEST_F(MeshProcessOpen, ADeviceThatARankCannotHaveIsToldByTheHost) {
  options_.devices = "cpu:0?speed=9";
  EXPECT_EQ(expect_refused().code(), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace rankcast::test
