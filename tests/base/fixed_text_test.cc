#include "base/fixed_text.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace rankcast::base {
namespace {

template <std::size_t kBytes>
std::string copied(std::string_view text) {
  std::array<char, kBytes + 1> field{};
  field.fill('#');
  copy_text(text, std::span(field).first(kBytes));
  EXPECT_EQ(field[kBytes], '#') << "nothing beyond its end";
  return field.data();
}

TEST(FixedText, WhatFitsIsCopiedWhole) {
  EXPECT_EQ(copied<16>(""), "");
  EXPECT_EQ(copied<16>("short"), "short");
  EXPECT_EQ(copied<16>("fifteen letters"), "fifteen letters");
}

TEST(FixedText, OfWhatDoesNotFitBeginningAndEndAreKept) {
  EXPECT_EQ(copied<16>("sixteen letters!"), "sixt [...] ers!");
  EXPECT_EQ(copied<32>("in a long path this could not be opened"),
            "in a long pa [...] ot be opened");
  EXPECT_EQ(copied<100>(std::string(5000, 'x')).size(), 99u);
}

TEST(FixedText, NoCharacterIsCutInTwo) {
  // Two bytes each, whatever the offset.
  const std::string accents = "\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4";
  EXPECT_EQ(copied<16>(accents), "\u00e4\u00f6 [...] \u00fc\u00e4");
  EXPECT_EQ(copied<16>("x" + accents), "x\u00e4 [...] \u00fc\u00e4");
  EXPECT_EQ(copied<16>(std::string(100, '\x80')), " [...] ") << "no UTF-8 at all";
}

}  // namespace
}  // namespace rankcast::base
