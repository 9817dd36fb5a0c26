// Any bytes are the begin of a safetensors file or are refused; accepted tensors tile the data.
//
// The first byte chooses: even, the rest is a file; odd, the rest is two bytes with the number of
// data bytes and then a header, whose length is put before it, so that the fuzzer need not find it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/safetensors_header.h"
#include "rankcast/error.h"

namespace {

void parse(std::span<const std::byte> file, std::uint64_t file_bytes) {
  try {
    const auto header = rankcast::model::parse_safetensors_header(file, file_bytes);
    std::uint64_t begin = header.entries.empty() ? file_bytes : header.entries[0].offset_bytes;
    RC_CHECK(begin >= rankcast::model::kLengthBytes);
    for (const auto& entry : header.entries) {
      RC_CHECK(entry.offset_bytes == begin && entry.size_bytes > 0);
      begin += entry.size_bytes;
    }
    RC_CHECK(begin == file_bytes);
  } catch (const rankcast::Error& error) {
    RC_CHECK(error.code() == rankcast::ErrorCode::invalid_argument);
    RC_CHECK(std::strlen(error.what()) < 1000);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  if (data[0] % 2 == 0) {
    parse(std::as_bytes(std::span(data + 1, size - 1)), size - 1);
    return 0;
  }
  const auto data_bytes = static_cast<std::uint64_t>(data[1] | data[2] << 8);
  std::vector<std::uint8_t> file(rankcast::model::kLengthBytes);
  const std::uint64_t length = size - 3;
  for (std::size_t i = 0; i < file.size(); ++i) {
    file[i] = static_cast<std::uint8_t>(length >> (8 * i));
  }
  file.insert(file.end(), data + 3, data + size);
  parse(std::as_bytes(std::span(file)), file.size() + data_bytes);
  return 0;
}
