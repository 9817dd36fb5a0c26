// Stores into frames (PROTOCOL P14): ordinary or streaming, whichever the mesh has measured to give
// the smaller total. The only place that uses x86 intrinsics; elsewhere both kinds are ordinary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rankcast::base {

enum class StoreKind : std::uint8_t {
  ordinary,   ///< Through the cache: cheap while the line is ours, dear when another core last read
              ///< it.
  streaming,  ///< Past the cache: a steady cost whoever holds the line. Needs store_fence before
              ///< publication.
};

/// "ordinary" or "streaming"; static storage.
std::string_view store_kind_name(StoreKind kind) noexcept;

/// True if streaming differs from ordinary on this processor.
bool has_streaming_stores() noexcept;

/// Copies `bytes` from `src` to `dst`, which do not overlap. `dst` must be aligned to kCacheLine
/// (checked without NDEBUG), `src` as it comes; the tail below 16 bytes is stored ordinarily. Any
/// thread, no failure.
void store_frame(void* dst, const void* src, std::size_t bytes, StoreKind kind) noexcept;

/// Once after all store_frame calls and before the tail is stored: orders streaming stores before
/// every later store. Nothing for ordinary stores, which the tail's own order covers.
void store_fence(StoreKind kind) noexcept;

}  // namespace rankcast::base
