#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace rankcast::base {
namespace {

TEST(ProcessTest, ChangesInAForkedChildAndNowhereElse) {
  const std::uint64_t here = process_generation();
  std::uint64_t in_thread = 0;
  std::thread([&] { in_thread = process_generation(); }).join();
  EXPECT_EQ(in_thread, here);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(process_generation() == here ? 1 : 0);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(process_generation(), here);
}

}  // namespace
}  // namespace rankcast::base
