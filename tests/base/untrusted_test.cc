#include "base/untrusted.h"

#include <gtest/gtest.h>

namespace rankcast::base {
namespace {

std::string shown(std::string_view text) { return printable(text.data(), text.size()); }

TEST(Untrusted, ErrorCodesAreThoseThatThereAre) {
  EXPECT_EQ(error_code_of(0), std::nullopt) << "success is no error";
  for (std::uint32_t code = 1; code <= static_cast<std::uint32_t>(ErrorCode::internal); ++code) {
    EXPECT_EQ(static_cast<std::uint32_t>(error_code_of(code).value()), code);
  }
  EXPECT_EQ(error_code_of(static_cast<std::uint32_t>(ErrorCode::internal) + 1), std::nullopt);
  EXPECT_EQ(error_code_of(257), std::nullopt) << "no cut to a byte";
  EXPECT_EQ(error_code_of(~0u), std::nullopt);
}

TEST(Untrusted, GoodTextStays) {
  EXPECT_EQ(shown(""), "");
  EXPECT_EQ(shown("task 3:\n\tno good"), "task 3:\n\tno good");
  EXPECT_EQ(shown("\u00e9 \u20ac \U0001f600"), "\u00e9 \u20ac \U0001f600");
}

TEST(Untrusted, TheTextEndsAtItsFirstZeroOrWithItsField) {
  EXPECT_EQ(printable("ab\0cd", 5), "ab");
  EXPECT_EQ(printable("abcd", 3), "abc");
  EXPECT_EQ(printable("\xe2\x82\xac", 2), "??") << "the field cut a character";
  EXPECT_EQ(printable("x", 0), "");
}

TEST(Untrusted, WhatNobodyCanReadIsMarked) {
  EXPECT_EQ(shown("\x1b[31mred\x7f\r"), "?[31mred??");
  EXPECT_EQ(shown("\x80 \xff \xc3"), "? ? ?");
  EXPECT_EQ(shown("\xc3z"), "?z") << "what follows is kept";
  EXPECT_EQ(shown("\xc0\xaf"), "??") << "longer than need be";
  EXPECT_EQ(shown("\xe0\x80\xaf"), "???");
  EXPECT_EQ(shown("\xf0\x80\x80\xaf"), "????");
  EXPECT_EQ(shown("\xed\xa0\x80"), "???") << "half of a pair";
  EXPECT_EQ(shown("\xf4\x90\x80\x80"), "????") << "past the last character";
}

}  // namespace
}  // namespace rankcast::base
