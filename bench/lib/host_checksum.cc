#include "bench/lib/host_checksum.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace rankcast::bench {

std::int64_t host_checksum(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const auto mix = [](std::uint64_t hash, std::uint64_t word) {
    const std::uint64_t x = hash ^ word;
    return (x ^ (x >> 32)) * 0x9E3779B97F4A7C15U;
  };
  std::array<std::uint64_t, 4> lanes{1, 2, 3, 4};
  std::size_t lane = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(kWord, bytes.size() - at));
    lanes[lane] = mix(lanes[lane], word);
    lane = (lane + 1) % lanes.size();
  }
  std::uint64_t sum = bytes.size();
  for (const std::uint64_t hash : lanes) sum = mix(sum, hash);
  return static_cast<std::int64_t>(sum ^ (sum >> 32));
}

}  // namespace rankcast::bench
