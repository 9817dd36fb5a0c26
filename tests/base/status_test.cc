#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/check.h"

namespace rankcast::base {
namespace {

TEST(StatusTest, DefaultIsSuccess) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.rank, -1);
  EXPECT_EQ(status.argument, -1);
  EXPECT_NO_THROW(throw_if_failed(status));
}

TEST(StatusTest, FailureIsFormatted) {
  const Status status = failure(ErrorCode::wrong_rank, "lives on rank {}, not {}", 3, 5)
                            .with_rank(5)
                            .with_argument(2);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code, ErrorCode::wrong_rank);
  EXPECT_EQ(status.text, "lives on rank 3, not 5");
  EXPECT_EQ(status.rank, 5);
  EXPECT_EQ(status.argument, 2);
}

TEST(StatusTest, ThrownWithItsFields) {
  try {
    throw_error(failure(ErrorCode::stale_tensor, "freed").with_rank(0).with_argument(7));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::stale_tensor);
    EXPECT_STREQ(error.what(), "freed");
    EXPECT_EQ(error.rank(), 0);
    EXPECT_EQ(error.argument(), 7);
    EXPECT_EQ(error.dispatch_id(), std::nullopt);
  }
}

TEST(StatusTest, FieldsThatAreNotKnownStayEmpty) {
  try {
    throw_error(failure(ErrorCode::closed, "closed"));
  } catch (const Error& error) {
    EXPECT_EQ(error.rank(), std::nullopt);
    EXPECT_EQ(error.argument(), std::nullopt);
  }
}

Result<std::unique_ptr<int>> made(bool good) {
  if (!good) return unexpected_failure(ErrorCode::out_of_memory, "no {} bytes", 4);
  return std::make_unique<int>(4);
}

TEST(ResultTest, ValueOrFailure) {
  EXPECT_EQ(*value_or_throw(made(true)), 4);
  EXPECT_THROW(value_or_throw(made(false)), Error);
  EXPECT_EQ(made(false).error().text, "no 4 bytes");
  EXPECT_NO_THROW(value_or_throw(Result<void>()));
}

TEST(CheckDeathTest, NamesTheExpression) {
  EXPECT_DEATH(RC_CHECK(1 + 1 == 3), "status_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3");
  RC_CHECK(true);
}

TEST(CheckDeathTest, DebugCheckFollowsNdebug) {
  int evaluated = 0;
  RC_DCHECK(++evaluated > 0);
#ifdef NDEBUG
  EXPECT_EQ(evaluated, 0);
#else
  EXPECT_EQ(evaluated, 1);
  EXPECT_DEATH(RC_DCHECK(false), "check failed: false");
#endif
}

}  // namespace
}  // namespace rankcast::base
