#include "tools/rankcast/check_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/rankcast/self_test.h"

namespace rankcast::tools {
namespace {

using ::testing::HasSubstr;

TEST(CheckList, TheFirstFailureDecidesHowTheCommandEnds) {
  EXPECT_EQ(exit_code_of(std::vector<CheckGroup>{}), 0);
  EXPECT_EQ(exit_code_of({{"a", {good("x", "1"), warned("y", "2", "mend it")}}}), 0);
  EXPECT_EQ(exit_code_of({{"a", {good("x", "1")}}, {"b", {failed("y", "2", "mend it")}}}), 3);
  EXPECT_EQ(
      exit_code_of({{"a", {failed("x", "1", "mend it", 4)}}, {"b", {failed("y", "2", "no")}}}), 4);
}

TEST(CheckList, EachLineSaysWhatToDo) {
  const std::string text = text_of(
      {{"things", {good("x", "one"), warned("y", "two", "look"), failed("z", "three", "mend")}}});
  EXPECT_THAT(text, HasSubstr("things\n  ok      x "));
  EXPECT_THAT(text, HasSubstr("  warning y "));
  EXPECT_THAT(text, HasSubstr("-> look\n"));
  EXPECT_THAT(text, HasSubstr("  FAILED  z "));
  EXPECT_THAT(text, HasSubstr("-> mend\n"));
  EXPECT_THAT(text, HasSubstr("1 FAILED, 1 warning\n"));
  EXPECT_THAT(text_of({{"things", {good("x", "one")}}}), HasSubstr("all is well, 0 warnings\n"));
}

TEST(SelfTest, SaysWhyALinkDoesNotWork) {
  bool stuck = false;
  const Check check = test_link("pigeon", &stuck);
  EXPECT_EQ(check.verdict, Verdict::failed);
  EXPECT_THAT(check.found, HasSubstr("pigeon"));
  EXPECT_NE(check.advice, "");
  EXPECT_FALSE(stuck);
}

}  // namespace
}  // namespace rankcast::tools
