// What host and process rank say to each other over their socket: whole messages, host to rank.
// First a Hello, then a SegmentNotice for each segment that the rank may reach.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rankcast::link {

/// Followed by `text_bytes` bytes of the host's own words. With three descriptors: the control
/// memory, the keeper's eventfd, a pidfd of the host.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x4f4c4c4548435352;  // "RSCHELLO"

  std::uint64_t magic = kMagic;
  char version[32] = {};  // of Rankcast: both must be one build's
  std::int32_t rank = 0;
  std::uint32_t text_bytes = 0;
  std::uint64_t control_bytes = 0;
  std::int64_t spin_ns = 0;
  std::uint32_t spin_yields = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Hello) == 72 && std::is_trivially_copyable_v<Hello>);

/// With one descriptor: the segment.
struct SegmentNotice {
  static constexpr std::uint64_t kMagic = 0x544e454d47455352;  // "RSEGMENT"

  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;
  std::uint32_t id = 0;
  std::uint32_t writable = 0;
};
static_assert(sizeof(SegmentNotice) == 24 && std::is_trivially_copyable_v<SegmentNotice>);

/// Where the rank's process has its end of the socket.
inline constexpr int kRankSocket = 3;

}  // namespace rankcast::link
