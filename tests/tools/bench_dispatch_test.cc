#include "tools/rankcast/bench_dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tools/rankcast/exit_code.h"

namespace rankcast::tools {
namespace {

BenchDispatch small_command() {
  BenchDispatch command;
  command.options.devices = std::string("cpu:0-1");
  command.options.rounds = 3;
  command.options.tensor_args = 3;
  command.command = std::string("rankcast bench dispatch --rounds 3");
  return command;
}

TEST(BenchDispatchCommand, AWrongResultIsExitCode1AndSaysWhere) {
  BenchDispatch command = small_command();
  command.options.kernel =
      bench::KernelOverride{"test.ones", [](const KernelCall& call) {
                              auto* out = static_cast<float*>(call.tensors.back().data);
                              std::fill(out, out + 16, 1.0F);
                            }};
  command.json = std::string("-");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_bench_dispatch(command);
  const std::string out = testing::internal::GetCapturedStdout();
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, kExitWrongResult);
  EXPECT_THAT(out, testing::HasSubstr("\"verified\": false"));
  EXPECT_THAT(error,
              testing::ContainsRegex("rankcast: wrong result: mesh, round 1: rank 0, output, "
                                     "element 0: found 1, expected [0-9]+"));
}

TEST(BenchDispatchCommand, AGoodRunIsExitCode0AndATable) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_bench_dispatch(small_command());
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(status, kExitGood);
  EXPECT_THAT(out, testing::HasSubstr("every result verified"));
  EXPECT_THAT(out, testing::HasSubstr("rankcast bench dispatch --rounds 3"));
}

}  // namespace
}  // namespace rankcast::tools
