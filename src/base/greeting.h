// The first message to a process that was started: a plain header that begins with a magic number,
// a text behind it, and descriptors. It travels whole, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace rankcast::base {

template <class Header>
struct Greeting {
  Header header;
  std::string text;
  std::vector<Fd> fds;
};

/// As send_message.
template <class Header>
Status send_greeting(int socket, const Header& header, std::string_view text,
                     std::span<const int> fds) {
  static_assert(std::is_trivially_copyable_v<Header>);
  std::vector<std::byte> bytes(sizeof(header) + text.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (!text.empty()) std::memcpy(bytes.data() + sizeof(header), text.data(), text.size());
  return send_message(socket, bytes, fds);
}

/// Waits for it. Fails with `internal` when there is nobody at the other end, and for a message
/// that is none: too short, with another magic number than Header::kMagic, or with other than
/// `fd_count` descriptors. The rest of the header is the caller's to check.
template <class Header>
Result<Greeting<Header>> receive_greeting(int socket, std::size_t fd_count) {
  static_assert(std::is_trivially_copyable_v<Header>);
  auto message = receive_message(socket, Deadline::never());
  if (!message) return tl::unexpected(std::move(message).error());
  const std::span<const std::byte> bytes = message->bytes;
  if (bytes.empty()) return unexpected_failure(ErrorCode::internal, "there is no host any more");
  Greeting<Header> greeting;
  if (bytes.size() < sizeof(Header) || message->fds.size() != fd_count) {
    return unexpected_failure(ErrorCode::internal, "what came is no host's greeting");
  }
  std::memcpy(&greeting.header, bytes.data(), sizeof(Header));
  if (greeting.header.magic != Header::kMagic) {
    return unexpected_failure(ErrorCode::internal, "what came is no host's greeting");
  }
  greeting.text.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof(Header),
                       bytes.size() - sizeof(Header));
  greeting.fds = std::move(message->fds);
  return greeting;
}

}  // namespace rankcast::base
