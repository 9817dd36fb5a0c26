// Safetensors files as bytes, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rankcast::test {

/// Length, header and `data`, as they stand in a file.
inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i) & 0xffU);
  }
  return bytes.append(header).append(data);
}

/// The header with blanks behind it, so that the data begin at a multiple of 8 plus `beyond`.
inline std::string padded(std::string header, std::size_t beyond) {
  while ((8 + header.size()) % 8 != beyond) header += ' ';
  return header;
}

}  // namespace rankcast::test
