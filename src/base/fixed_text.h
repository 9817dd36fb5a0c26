// Text in a field of fixed size, as records that cross a link have it.
#pragma once

#include <span>
#include <string_view>

namespace rankcast::base {

/// Copies `text` into `field`, which has room for 16 bytes or more, with a final 0. Of a text that
/// does not fit the beginning and the end are kept, with " [...] " between: where something went
/// wrong comes first, and what comes last. No character of UTF-8 is cut in two. Allocates nothing.
void copy_text(std::string_view text, std::span<char> field) noexcept;

}  // namespace rankcast::base
