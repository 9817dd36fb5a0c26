#include "base/fixed_text.h"

#include <cstddef>

#include "base/check.h"

namespace rankcast::base {
namespace {

constexpr std::string_view kCut = " [...] ";
constexpr std::size_t kLeastRoom = 16;

constexpr bool continues_character(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u;
}

}  // namespace

void copy_text(std::string_view text, std::span<char> field) noexcept {
  RC_CHECK(field.size() >= kLeastRoom);
  std::string_view end;
  std::string_view cut;
  if (const std::size_t room = field.size() - 1; text.size() > room) {
    const std::size_t kept = room - kCut.size();
    std::size_t first = kept / 2;
    std::size_t last = text.size() - (kept - first);
    while (first > 0 && continues_character(text[first])) --first;
    while (last < text.size() && continues_character(text[last])) ++last;
    end = text.substr(last);
    cut = kCut;
    text = text.substr(0, first);
  }
  std::size_t at = 0;
  for (const std::string_view part : {text, cut, end}) at += part.copy(&field[at], part.size());
  field[at] = '\0';
}

}  // namespace rankcast::base
