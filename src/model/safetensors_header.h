// From the bytes of a safetensors header to entries; knows no file and no mapping, so that it can
// be fuzzed.
//
//   | bytes      | what |
//   |------------|-------------------------------------------------------------------------------------------|
//   | 0..7       | n, the length of the header, little-endian | | 8..8+n-1   | JSON: {"name":
//   {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}      | | 8+n..      |
//   data; offsets count from here; the tensors fill it without gaps                           |
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "rankcast/safetensors.h"

namespace rankcast::model {

/// Bytes of the length before the header.
inline constexpr std::uint64_t kLengthBytes = 8;

/// The longest header that is read.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct SafetensorsHeader {
  std::vector<SafetensorsFile::Entry> entries;  ///< in the order of their data
  std::map<std::string, std::string> metadata;  ///< of "__metadata__"
};

/// Checks and reads the header of a file that begins with `file` (at least the whole header, if the
/// file has it) and is `file_bytes` long. Throws `Error(invalid_argument)` saying what is wrong and
/// in which tensor, without the file's name. Any thread. Takes memory in proportion to the header.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                           std::uint64_t file_bytes);

}  // namespace rankcast::model
