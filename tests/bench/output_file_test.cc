#include "bench/lib/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/expect_error.h"

namespace rankcast::bench {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "rankcast-output.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const char* name) const { return (folder / name).string(); }
  std::string read(const char* name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
  }

  fs::path folder;
};

TEST_F(OutputFileTest, AppearsWhenItIsWritten) {
  OutputFile file(path("a"));
  EXPECT_FALSE(fs::exists(path("a")));
  file.write("text\n");
  EXPECT_EQ(read("a"), "text\n");
  EXPECT_EQ(files(), 1U);
}

TEST_F(OutputFileTest, LeavesNothingWhenItIsNotWritten) {
  {
    const OutputFile file(path("a"));
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(OutputFileTest, TheFileOfThatNameStaysUntilTheNewOneIsWhole) {
  std::ofstream(path("a")) << "old";
  {
    const OutputFile file(path("a"));
  }
  EXPECT_EQ(read("a"), "old");
  chmod(path("a").c_str(), 0640);
  OutputFile file(path("a"));
  EXPECT_EQ(read("a"), "old");
  file.write("new");
  EXPECT_EQ(read("a"), "new");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms(0640));
  EXPECT_EQ(files(), 1U);
}

TEST_F(OutputFileTest, ALinkStaysALink) {
  std::ofstream(path("target")) << "old";
  fs::create_symlink(path("target"), path("link"));
  OutputFile(path("link")).write("new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read("target"), "new");
}

TEST_F(OutputFileTest, ADeviceIsWrittenAndStaysADevice) {
  OutputFile("/dev/null").write("text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsRefusedAtOnceWithItsName) {
  const std::string missing = path("no/such/folder/a");
  test::expect_error(ErrorCode::invalid_argument, {missing, "No such file"},
                     [&] { OutputFile file(missing); });
  test::expect_error(ErrorCode::invalid_argument, {folder.string(), "directory"},
                     [&] { OutputFile file(folder.string()); });
  test::expect_error(ErrorCode::invalid_argument, {"cannot be written"},
                     [&] { OutputFile file(""); });
  EXPECT_EQ(files(), 0U);
}

TEST_F(OutputFileTest, ADiskThatIsFullIsAnError) {
  OutputFile full("/dev/full");
  test::expect_error(ErrorCode::unsupported, {"/dev/full", "No space"},
                     [&] { full.write("text"); });
}

}  // namespace
}  // namespace rankcast::bench
