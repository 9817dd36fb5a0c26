#include "tools/rankcast/variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace rankcast::tools {
namespace {

using ::testing::HasSubstr;

std::vector<Check> checks_of(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  return check_variables(environment.data());
}

const Check& named(const std::vector<Check>& checks, const std::string& name) {
  static const Check none{"not there", Verdict::ok, {}, {}, 0};
  const auto found = std::ranges::find(checks, name, &Check::name);
  return found == checks.end() ? none : *found;
}

TEST(Variables, AllThatAreReadAreListedAndNothingElse) {
  const std::vector<Check> checks =
      checks_of({"HOME=/", "RANKCASTER=1", "XRANKCAST_LOG=1", "RANKCAST_TEST_BUILD=build/dev"});
  EXPECT_GE(checks.size(), 5u);
  for (const Check& check : checks) {
    EXPECT_EQ(check.verdict, Verdict::ok) << check.name;
    EXPECT_EQ(check.found, "not set") << check.name;
    EXPECT_EQ(check.advice, "") << check.name;
  }
}

TEST(Variables, AGoodValueIsShown) {
  const std::vector<Check> checks = checks_of({"RANKCAST_LOG=debug", "RANKCAST_RANK_BINARY=/a=b"});
  EXPECT_EQ(named(checks, "RANKCAST_LOG").found, "\"debug\"");
  EXPECT_EQ(named(checks, "RANKCAST_RANK_BINARY").found, "\"/a=b\"");
  EXPECT_EQ(named(checks, "RANKCAST_RANK_BINARY").verdict, Verdict::ok);
}

TEST(Variables, AnEmptyOneIsNotSet) {
  EXPECT_EQ(named(checks_of({"RANKCAST_STORES="}), "RANKCAST_STORES").found, "not set");
}

TEST(Variables, ABadValueSaysWhatIsAccepted) {
  const std::vector<Check> checks =
      checks_of({"RANKCAST_LOG=loud", "RANKCAST_STORES=slow", "RANKCAST_POISON=yes"});
  EXPECT_EQ(named(checks, "RANKCAST_LOG").verdict, Verdict::warning);
  EXPECT_THAT(named(checks, "RANKCAST_LOG").advice, HasSubstr("debug, info, warning"));
  EXPECT_EQ(named(checks, "RANKCAST_POISON").verdict, Verdict::warning);
  EXPECT_EQ(named(checks, "RANKCAST_STORES").verdict, Verdict::failed) << "no mesh opens with it";
  EXPECT_THAT(named(checks, "RANKCAST_STORES").advice, HasSubstr("streaming"));
}

TEST(Variables, ANumberIsLookedAt) {
  const auto verdict = [](const char* entry) {
    return named(checks_of({entry}), "RANKCAST_WATCHDOG_MS").verdict;
  };
  EXPECT_EQ(verdict("RANKCAST_WATCHDOG_MS=0"), Verdict::ok);
  EXPECT_EQ(verdict("RANKCAST_WATCHDOG_MS=86400000"), Verdict::ok);
  for (const char* bad :
       {"RANKCAST_WATCHDOG_MS=86400001", "RANKCAST_WATCHDOG_MS=-1", "RANKCAST_WATCHDOG_MS=1s"}) {
    EXPECT_EQ(verdict(bad), Verdict::failed) << bad;
  }
  EXPECT_THAT(named(checks_of({"RANKCAST_WATCHDOG_MS=soon"}), "RANKCAST_WATCHDOG_MS").advice,
              HasSubstr("0 to 86400000"));
}

TEST(Variables, OneThatNobodyReadsHasANearest) {
  const std::vector<Check> checks = checks_of(
      {"RANKCAST_LGO=debug", "RANKCAST_STORE=measured", "RANKCAST_", "RANKCAST_RANKBINARY=/x"});
  EXPECT_EQ(named(checks, "RANKCAST_LGO").verdict, Verdict::warning);
  EXPECT_EQ(named(checks, "RANKCAST_LGO").found, "\"debug\"");
  EXPECT_THAT(named(checks, "RANKCAST_LGO").advice, HasSubstr("RANKCAST_LOG"));
  EXPECT_THAT(named(checks, "RANKCAST_STORE").advice, HasSubstr("RANKCAST_STORES"));
  EXPECT_THAT(named(checks, "RANKCAST_RANKBINARY").advice, HasSubstr("RANKCAST_RANK_BINARY"));
  EXPECT_EQ(named(checks, "RANKCAST_").verdict, Verdict::warning);
}

TEST(Variables, DistancesOfNames) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("same", "same"), 0);
}

}  // namespace
}  // namespace rankcast::tools
