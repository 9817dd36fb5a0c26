#include "base/untrusted.h"

#include <cstring>

namespace rankcast::base {
namespace {

// Bytes of the UTF-8 character at the front; 0 if there is none that may be shown.
std::size_t character_bytes(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return (first >= 0x20 && first != 0x7f) || first == '\n' || first == '\t';
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, half of a UTF-16 pair, or past the last character.
  const unsigned second = byte(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return wrong ? 0 : bytes;
}

}  // namespace

std::optional<ErrorCode> error_code_of(std::uint32_t number) noexcept {
  if (number == 0 || number > static_cast<std::uint32_t>(ErrorCode::internal)) return std::nullopt;
  return static_cast<ErrorCode>(number);
}

std::string printable(const char* field, std::size_t capacity) {
  // Copied first: what is checked is what is shown.
  const std::string copy(field, strnlen(field, capacity));
  std::string text;
  text.reserve(copy.size());
  for (std::string_view rest = copy; !rest.empty();) {
    const std::size_t bytes = character_bytes(rest);
    text += bytes == 0 ? std::string_view("?") : rest.substr(0, bytes);
    rest.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return text;
}

}  // namespace rankcast::base
