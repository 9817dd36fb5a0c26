#include "base/own_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "support/temp_folder.h"

namespace rankcast::base {
namespace {

using ::testing::HasSubstr;
constexpr std::array kFolders{"", "../lib", "../../bin"};
constexpr const char* kVariable = "RANKCAST_TEST_OWN_FILE";

void touch(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "x";
}

TEST(OwnFile, TheFolderIsThatOfThisProgram) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(own_folder(), program.parent_path());
}

TEST(OwnFile, TheFirstFolderThatHasItCounts) {
  const test::TempFolder temp;
  const std::filesystem::path from = temp.path("a/b");
  std::filesystem::create_directories(from);
  const auto found = [&] { return find_file_from(from, kFolders, "file", "it was", kVariable); };

  const auto none = found();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
  EXPECT_THAT(none.error().text, HasSubstr("it was not found"));
  for (const auto* place : {"a/b/file", "a/lib/file", "bin/file"}) {
    EXPECT_THAT(none.error().text, HasSubstr("\"" + temp.path(place) + "\""));
  }
  EXPECT_THAT(none.error().text, HasSubstr(kVariable));

  std::filesystem::create_directories(from / "file");
  EXPECT_FALSE(found()) << "a folder is no file";
  std::filesystem::remove(from / "file");
  for (const auto* place : {"bin/file", "a/lib/file", "a/b/file"}) {
    touch(temp.path(place));
    EXPECT_EQ(found().value(), temp.path(place));
  }
}

TEST(OwnFile, TheEnvironmentVariableComesFirst) {
  const test::TempFolder temp;
  const std::string named = temp.path("named");
  const auto found = [] { return find_own_file(kFolders, "no such file", "it was", kVariable); };
  setenv(kVariable, named.c_str(), 1);
  const auto missing = found();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::unsupported);
  EXPECT_THAT(missing.error().text, HasSubstr(named));
  EXPECT_THAT(missing.error().text, HasSubstr(kVariable));
  touch(named);
  EXPECT_EQ(found().value(), named);
  setenv(kVariable, "", 1);
  const auto empty = found();
  ASSERT_FALSE(empty) << "an empty variable is none";
  EXPECT_THAT(empty.error().text, HasSubstr("looked for"));
  unsetenv(kVariable);
}

}  // namespace
}  // namespace rankcast::base
