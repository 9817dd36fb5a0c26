#include "rankcast/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rankcast {
namespace {

constexpr int kLastCode = static_cast<int>(ErrorCode::internal);

TEST(ErrorTest, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int code = 1; code <= kLastCode; ++code) {
    const std::string name(error_code_name(static_cast<ErrorCode>(code)));
    EXPECT_NE(name, "unknown") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(error_code_name(ErrorCode::stale_tensor), "stale_tensor");
  EXPECT_EQ(error_code_name(static_cast<ErrorCode>(0)), "unknown");
  EXPECT_EQ(error_code_name(static_cast<ErrorCode>(kLastCode + 1)), "unknown");
}

TEST(ErrorTest, KeepsMessageAndFields) {
  const Error error(ErrorCode::wrong_rank, "what happened",
                    {.rank = 3, .argument = 7, .dispatch_id = 11, .limit = 13});
  EXPECT_STREQ(error.what(), "what happened");
  EXPECT_EQ(error.code(), ErrorCode::wrong_rank);
  EXPECT_EQ(error.rank(), 3);
  EXPECT_EQ(error.argument(), 7);
  EXPECT_EQ(error.dispatch_id(), 11U);
  EXPECT_EQ(error.limit(), 13U);
}

TEST(ErrorTest, FieldsAreEmptyUnlessGiven) {
  const Error error(ErrorCode::closed, "closed");
  EXPECT_EQ(error.rank(), std::nullopt);
  EXPECT_EQ(error.argument(), std::nullopt);
  EXPECT_EQ(error.dispatch_id(), std::nullopt);
  EXPECT_EQ(error.limit(), std::nullopt);
}

TEST(ErrorTest, CopiesAndIsCaughtAsTheStandardsOwn) {
  try {
    Error thrown(ErrorCode::closed, "overwritten");
    thrown = Error(ErrorCode::internal, "first", {.rank = 1});
    throw thrown;
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
    EXPECT_EQ(dynamic_cast<const Error&>(error).rank(), 1);
  }
}

}  // namespace
}  // namespace rankcast
