// A large piece of address space that costs memory only where it is touched.
#pragma once

#include <cstddef>

#include "base/fd.h"
#include "base/status.h"

namespace rankcast::base {

struct SharedSegment;

/// Owns one mapping: page aligned, zero filled, readable and writable, not counted
/// against the commit limit until touched (8 x 512 MiB opens on a small machine). Move-only. The
/// object is not thread-safe, its memory is plain memory.
class Segment {
 public:
  /// `bytes` is rounded up to whole pages and must not be 0 (invalid_argument). Fails with
  /// out_of_memory, naming bytes and the system's reason.
  static Result<Segment> reserve(std::size_t bytes);

  /// Memory of the same kind that other processes may map: a memfd without a name, sealed against
  /// another size. Fails as reserve does, and with `internal` where the system has no memfd.
  static Result<SharedSegment> create_shared(std::size_t bytes);
  /// Maps what another process created; `bytes` as it said. Fails with `internal` for a descriptor
  /// of less, or of another kind, and with out_of_memory.
  static Result<Segment> map_shared(int fd, std::size_t bytes, bool writable);

  Segment() noexcept = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  /// Null and 0 when empty.
  std::byte* base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Segment(std::byte* base, std::size_t bytes) noexcept : base_(base), bytes_(bytes) {}
  void release() noexcept;

  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A segment and the descriptor by which another process maps it.
struct SharedSegment {
  Segment memory;
  Fd fd;
};

}  // namespace rankcast::base
