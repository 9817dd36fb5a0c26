#include "rank/digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace rankcast::rank {
namespace {

constexpr const char* kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Digest, IsThatOfTheStandard) {
  const test::TempFolder folder;
  EXPECT_EQ(digest_text(sha256_of_file(folder.write("abc", "abc")).value()), kOfAbc);
  EXPECT_EQ(digest_text(sha256_of_file(folder.write("empty", "")).value()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  // Longer than what is read at once: a million times 'a'.
  EXPECT_EQ(digest_text(sha256_of_file(folder.write("a", std::string(1'000'000, 'a'))).value()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Digest, AFileThatCannotBeReadIsNamed) {
  const test::TempFolder folder;
  for (const std::string& path : {folder.path("none"), folder.path("")}) {
    const auto digest = sha256_of_file(path);
    ASSERT_FALSE(digest);
    EXPECT_EQ(digest.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(digest.error().text, ::testing::HasSubstr(path));
  }
}

TEST(Digest, TextThereAndBack) {
  EXPECT_EQ(digest_text(parse_digest(kOfAbc).value()), kOfAbc);
  const std::string good = kOfAbc;
  for (const std::string& text :
       {std::string(), good.substr(1), good + "0", "g" + good.substr(1)}) {
    const auto digest = parse_digest(text);
    ASSERT_FALSE(digest) << text;
    EXPECT_EQ(digest.error().code, ErrorCode::internal);
  }
}

}  // namespace
}  // namespace rankcast::rank
