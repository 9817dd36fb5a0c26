// The segments of a mesh by id: fixed places, so that a rank may look one up while the host adds
// others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rankcast::link {

inline constexpr std::uint32_t kMaxSegments = 16384;

/// Base and size by id. The host fills an entry before it publishes the first record that tells of
/// it, and never changes it; a rank looks only at ids that it was told of. Publication orders the
/// two.
class SegmentDirectory {
 public:
  struct Entry {
    std::byte* base = nullptr;
    std::uint64_t bytes = 0;
  };

  SegmentDirectory() : entries_(std::make_unique<std::array<Entry, kMaxSegments>>()) {}

  void set(std::uint32_t id, Entry entry) noexcept { (*entries_)[id] = entry; }
  /// Zeroes for an id out of range or never set.
  Entry at(std::uint32_t id) const noexcept {
    return id < kMaxSegments ? (*entries_)[id] : Entry{};
  }

 private:
  std::unique_ptr<std::array<Entry, kMaxSegments>> entries_;
};

}  // namespace rankcast::link
