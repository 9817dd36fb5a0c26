// What belongs to the installation: found, described, missing.
#include "rankcast/installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scoped_variable.h"
#include "support/temp_folder.h"

namespace rankcast::test {
namespace {

using ::testing::HasSubstr;

TEST(Installation, FindsWhatABuildHas) {
  const Installation found = installation();
  EXPECT_EQ(found.kernels_problem + found.rank_program_problem, "");
  EXPECT_THAT(found.kernels, HasSubstr("librankcast_kernels.so"));
  EXPECT_THAT(found.rank_program, HasSubstr("rankcast-rank"));
  EXPECT_THAT(found.kernels_digest, ::testing::MatchesRegex("[0-9a-f]{64}"));
}

TEST(Installation, TheDigestIsThatOfTheFile) {
  const TempFolder folder;
  const ScopedVariable named("RANKCAST_KERNEL_LIBRARY", folder.write("kernels.so", "abc"));
  EXPECT_EQ(installation().kernels_digest,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Installation, SaysWhatIsMissing) {
  const TempFolder folder;
  {
    const ScopedVariable kernels("RANKCAST_KERNEL_LIBRARY", folder.path("none.so"));
    const ScopedVariable program("RANKCAST_RANK_BINARY", folder.path("none"));
    const Installation found = installation();
    EXPECT_EQ(found.kernels + found.kernels_digest + found.rank_program, "");
    EXPECT_THAT(found.kernels_problem, HasSubstr("RANKCAST_KERNEL_LIBRARY"));
    EXPECT_THAT(found.kernels_problem, HasSubstr("none.so"));
    EXPECT_THAT(found.rank_program_problem, HasSubstr("RANKCAST_RANK_BINARY"));
  }
  const ScopedVariable program("RANKCAST_RANK_BINARY", folder.write("plain", "no program"));
  EXPECT_THAT(installation().rank_program_problem, HasSubstr("may not be executed"));
}

}  // namespace
}  // namespace rankcast::test
