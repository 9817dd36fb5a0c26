// What host and process rank say to each other over their socket: whole messages.
//
// The host: first a Hello, then a SegmentNotice for each segment that the rank may reach, as far as
// the socket has room. The rank: a SegmentRequest when it is to use a segment that it was not sent.
// The host then sends what is left, or the request back: there is no such segment for this rank.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rankcast::link {

/// Followed by the host's own words. With three descriptors: the control memory, the keeper's
/// eventfd, a pidfd of the host.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x4f4c4c4548435352;  // "RSCHELLO"

  std::uint64_t magic = kMagic;
  char version[32] = {};  // of Rankcast: both must be one build's
  std::int32_t rank = 0;
  std::uint32_t spin_yields = 0;
  std::uint64_t control_bytes = 0;
  std::int64_t spin_ns = 0;
};
static_assert(sizeof(Hello) == 64 && std::is_trivially_copyable_v<Hello>);

/// With one descriptor: the segment.
struct SegmentNotice {
  static constexpr std::uint64_t kMagic = 0x544e454d47455352;  // "RSEGMENT"

  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;
  std::uint32_t id = 0;
  std::uint32_t writable = 0;
};
static_assert(sizeof(SegmentNotice) == 24 && std::is_trivially_copyable_v<SegmentNotice>);

/// Without a descriptor, in both directions.
struct SegmentRequest {
  static constexpr std::uint64_t kMagic = 0x5453455551455352;  // "RSEQUEST"

  std::uint64_t magic = kMagic;
  std::uint32_t id = 0;
  std::uint32_t number = 0;  // of the rank's requests: an answer to an earlier one is none
};
static_assert(sizeof(SegmentRequest) == 16 && std::is_trivially_copyable_v<SegmentRequest>);

/// Where the rank's process has its end of the socket.
inline constexpr int kRankSocket = 3;

}  // namespace rankcast::link
