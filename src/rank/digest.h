// The SHA-256 digest of a file: the name by which host and ranks agree that they mean the same one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rankcast::rank {

using Digest = std::array<std::uint8_t, 32>;

/// Reads the whole file. `invalid_argument`, naming it, for one that cannot be read.
base::Result<Digest> sha256_of_file(const std::string& path);

/// 64 lower-case hexadecimal digits, and back; `internal` for a text that is not such.
std::string digest_text(const Digest& digest);
base::Result<Digest> parse_digest(std::string_view text);

}  // namespace rankcast::rank
