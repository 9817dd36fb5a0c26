// What a kernel library must be to be loaded, and where the built-in one is found.
#include "rank/kernel_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace rankcast::rank {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string library(const std::string& name) {
  return std::string(RANKCAST_TEST_LIBRARIES) + "/" + name + ".so";
}

/// The text of what must be an invalid_argument.
std::string refusal(const std::string& path) {
  const auto opened = KernelLibrary::open(path);
  if (opened) return "it was opened";
  EXPECT_EQ(opened.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(opened.error().text, HasSubstr(path));
  return opened.error().text;
}

std::vector<std::string> names_of(const KernelLibrary& library) {
  std::vector<std::string> names;
  for (const rankcast_kernel& kernel : library.kernels()) names.emplace_back(kernel.name);
  return names;
}

/// Whether the process has it loaded.
bool is_loaded(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  dlclose(handle);
  return true;
}

TEST(KernelLibrary, ReadsTheTable) {
  const auto opened = KernelLibrary::open(library("good"));
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ(opened->path(), library("good"));
  EXPECT_EQ(opened->title(), "test 1.2.3");
  EXPECT_THAT(names_of(*opened), ::testing::ElementsAre("test.first", "test.second"));
  EXPECT_EQ(opened->kernels()[1].run(nullptr, nullptr, nullptr, nullptr), RANKCAST_OK);
}

TEST(KernelLibrary, ReadsKernelsThatALaterHeaderMadeLarger) {
  const auto opened = KernelLibrary::open(library("good_later"));
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_THAT(names_of(*opened), ::testing::ElementsAre("test.first", "test.second"));
  EXPECT_EQ(opened->kernels()[1].run(nullptr, nullptr, nullptr, nullptr), RANKCAST_OK);
}

TEST(KernelLibrary, UnloadsOnceWhenItsLastOwnerGoes) {
  const std::string path = library("good");
  {
    auto first = KernelLibrary::open(path);
    ASSERT_TRUE(first);
    std::optional<KernelLibrary> second(std::move(*first));
    EXPECT_TRUE(is_loaded(path));
    auto third = KernelLibrary::open(library("good_later"));
    ASSERT_TRUE(third);
    *third = std::move(*second);
    second.reset();
    EXPECT_TRUE(is_loaded(path)) << "its owner is the one that was assigned to";
    EXPECT_THAT(names_of(*third), ::testing::ElementsAre("test.first", "test.second"));
  }
  EXPECT_FALSE(is_loaded(path));
  EXPECT_FALSE(is_loaded(library("good_later")));
  static_assert(!std::is_copy_constructible_v<KernelLibrary>);
}

TEST(KernelLibrary, NamesAMissingFile) {
  EXPECT_THAT(refusal("no/such/library.so"), HasSubstr("no such file"));
  EXPECT_THAT(refusal(""), HasSubstr("no such file"));
  // The loader would find this one in its own folders.
  EXPECT_THAT(refusal("libc.so.6"), HasSubstr("no such file"));
}

TEST(KernelLibrary, NamesAFileThatIsNoLibrary) {
  const std::string path = testing::TempDir() + "rankcast_no_library.so";
  std::ofstream(path) << "this is text";
  EXPECT_THAT(refusal(path), HasSubstr("cannot be loaded"));
  std::filesystem::remove(path);
  EXPECT_THAT(refusal(testing::TempDir()), HasSubstr("is no regular file"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("is no regular file"));  // which has no end
  EXPECT_THAT(refusal(library("missing_dependency")),
              AllOf(HasSubstr("cannot be loaded"), HasSubstr("rankcast_test_nobody_defines_this")));
}

TEST(KernelLibrary, NamesWhatIsWrongWithATable) {
  EXPECT_THAT(refusal(library("no_symbol")), HasSubstr("rankcast_kernels"));
  EXPECT_THAT(refusal(library("other_abi")), AllOf(HasSubstr("version 7"), HasSubstr("version 1")));
  EXPECT_THAT(refusal(library("small_table")),
              AllOf(HasSubstr("its table has 16 bytes"),
                    HasSubstr(std::to_string(sizeof(rankcast_kernel_table)))));
  EXPECT_THAT(
      refusal(library("small_kernel")),
      AllOf(HasSubstr("its kernels 16"), HasSubstr(std::to_string(sizeof(rankcast_kernel)))));
  EXPECT_THAT(refusal(library("lying_kernel")),
              AllOf(HasSubstr("kernel 0"), HasSubstr("4096 bytes")));
  EXPECT_THAT(refusal(library("no_kernels")), HasSubstr("no kernels"));
  EXPECT_THAT(refusal(library("null_kernels")), HasSubstr("no kernels"));
}

TEST(KernelLibrary, NamesTheKernelAtFault) {
  EXPECT_THAT(refusal(library("null_name")), HasSubstr("kernel 1 has no name"));
  EXPECT_THAT(refusal(library("bad_name")),
              AllOf(HasSubstr("kernel 1"), HasSubstr("\"Test.second\""), HasSubstr("lower-case")));
  EXPECT_THAT(refusal(library("same_name")),
              AllOf(HasSubstr("kernel 1"), HasSubstr("\"test.first\""), HasSubstr("earlier")));
  EXPECT_THAT(refusal(library("null_run")),
              AllOf(HasSubstr("kernel 1"), HasSubstr("\"test.second\""), HasSubstr("run")));
}

TEST(KernelLibrary, ARefusedOneIsNotLeftLoaded) {
  EXPECT_NE(refusal(library("null_run")), "it was opened");
  EXPECT_FALSE(is_loaded(library("null_run")));
}

TEST(KernelName, IsALibraryAndAKernelAtLeast) {
  for (const char* good : {"rankcast.sum", "a.b", "a.b.c", "my_lib2.kernel_3", "0._"}) {
    EXPECT_TRUE(is_kernel_name(good)) << good;
  }
  for (const char* bad :
       {"", ".", "sum", "a.", ".a", "a..b", "A.b", "a.b-c", "a b.c", "a.b\n", "caf\xC3\xA9.sum"}) {
    EXPECT_FALSE(is_kernel_name(bad)) << bad;
  }
}

/// Sets the variable and puts back what it was.
class KernelLibraryVariable {
 public:
  explicit KernelLibraryVariable(const char* value) {
    if (const char* old = std::getenv(kName)) old_ = old;
    value != nullptr ? setenv(kName, value, 1) : unsetenv(kName);
  }
  ~KernelLibraryVariable() { old_ ? setenv(kName, old_->c_str(), 1) : unsetenv(kName); }

 private:
  static constexpr const char* kName = "RANKCAST_KERNEL_LIBRARY";
  std::optional<std::string> old_;
};

TEST(BuiltinKernels, AreFoundFromWhereTheCodeIs) {
  const KernelLibraryVariable unset(nullptr);
  const auto path = builtin_kernel_library_path();
  ASSERT_TRUE(path) << path.error().text;
  EXPECT_TRUE(std::filesystem::equivalent(*path, RANKCAST_TEST_KERNELS));
  const auto opened = KernelLibrary::open(*path);
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_THAT(names_of(*opened),
              ::testing::ElementsAre("rankcast.all_sum", "rankcast.checksum", "rankcast.copy",
                                     "rankcast.fill", "rankcast.sum"));
}

TEST(BuiltinKernels, AreWhereTheVariableSays) {
  const KernelLibraryVariable set(library("good").c_str());
  const auto path = builtin_kernel_library_path();
  ASSERT_TRUE(path) << path.error().text;
  EXPECT_EQ(*path, library("good"));
}

TEST(BuiltinKernels, AFileThatTheVariableNamesInVainIsNotReplacedByAnother) {
  const KernelLibraryVariable set("/no/such/kernels.so");
  const auto path = builtin_kernel_library_path();
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, ErrorCode::unsupported);
  EXPECT_THAT(path.error().text,
              AllOf(HasSubstr("RANKCAST_KERNEL_LIBRARY"), HasSubstr("/no/such/kernels.so")));
}

TEST(BuiltinKernels, WhereTheyAreNotAllPlacesAreListed) {
  const std::filesystem::path nowhere = std::filesystem::path(testing::TempDir()) / "a/b/c";
  const auto path = builtin_kernel_library_from(nowhere);
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, ErrorCode::unsupported);
  for (const char* folder : {"a/b/c", "a/b/lib", "a/lib"}) {
    EXPECT_THAT(path.error().text, HasSubstr(std::string(folder) + "/librankcast_kernels.so\""));
  }
  EXPECT_THAT(path.error().text, HasSubstr("RANKCAST_KERNEL_LIBRARY"));
}

TEST(BuiltinKernels, AnEmptyVariableSaysNothing) {
  const KernelLibraryVariable set("");
  EXPECT_TRUE(builtin_kernel_library_path());
}

}  // namespace
}  // namespace rankcast::rank
