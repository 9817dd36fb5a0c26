// Values that another process wrote into shared memory, made fit to show and to branch on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rankcast/error.h"

namespace rankcast::base {

/// The error code of that number; nothing for a number that is none.
std::optional<ErrorCode> error_code_of(std::uint32_t number) noexcept;

/// The text of a field of `capacity` bytes: up to its first 0, or all of it. Control characters and
/// what is no UTF-8 (a character that the field's end cut, too) become '?'; newline and tab stay.
std::string printable(const char* field, std::size_t capacity);

}  // namespace rankcast::base
