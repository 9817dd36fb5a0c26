#include "tools/rankcast/exit_code.h"

#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

#include "tools/rankcast/interrupt.h"

namespace rankcast::tools {
namespace {

int run_throwing(ErrorCode code) {
  return run_guarded([code]() -> int { throw Error(code, "message"); });
}

TEST(ExitCode, FollowsWhatWasThrown) {
  EXPECT_EQ(run_guarded([] { return 0; }), 0);
  EXPECT_EQ(run_guarded([] { return 1; }), 1);
  EXPECT_EQ(run_throwing(ErrorCode::task_failed), 1);
  EXPECT_EQ(run_throwing(ErrorCode::invalid_argument), 2);
  EXPECT_EQ(run_throwing(ErrorCode::out_of_memory), 3);
  EXPECT_EQ(run_throwing(ErrorCode::unsupported), 3);
  EXPECT_EQ(run_throwing(ErrorCode::rank_lost), 3);
  EXPECT_EQ(run_throwing(ErrorCode::internal), 3);
  EXPECT_EQ(run_throwing(ErrorCode::deadline_exceeded), 4);
  EXPECT_EQ(run_guarded([]() -> int { throw std::bad_alloc(); }), 3);
  EXPECT_EQ(run_guarded([]() -> int { throw std::runtime_error("other"); }), 3);
  EXPECT_EQ(run_guarded([]() -> int { throw Interrupted(); }), 130);
}

TEST(ExitCode, AnErrorIsOneLine) {
  testing::internal::CaptureStderr();
  run_guarded([]() -> int { throw Error(ErrorCode::invalid_argument, "one\ntwo\n"); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "rankcast: one two\n");
}

TEST(InterruptWatch, NotesTheSignalAndPutsBackWhatWasThere) {
  struct sigaction before{};
  sigaction(SIGINT, nullptr, &before);
  {
    const InterruptWatch watch;
    EXPECT_NO_THROW(watch.throw_if_interrupted());
    raise(SIGINT);
    EXPECT_THROW(watch.throw_if_interrupted(), Interrupted);
  }
  struct sigaction after{};
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  const InterruptWatch fresh;
  EXPECT_NO_THROW(fresh.throw_if_interrupted());
}

}  // namespace
}  // namespace rankcast::tools
