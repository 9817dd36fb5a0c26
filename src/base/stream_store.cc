#include "base/stream_store.h"

#include <cstring>

#include "base/atomic.h"
#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rankcast::base {

std::string_view store_kind_name(StoreKind kind) noexcept {
  return kind == StoreKind::streaming ? "streaming" : "ordinary";
}

bool has_streaming_stores() noexcept {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

#if defined(__x86_64__)

namespace {

// Returns how many bytes were stored: all whole 16-byte pieces.
std::size_t stream_pieces(std::byte* dst, const std::byte* src, std::size_t bytes) noexcept {
  std::size_t done = 0;
#if defined(__AVX__)
  for (; done + 32 <= bytes; done += 32) {
    const __m256i piece = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + done));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + done), piece);
  }
#endif
  for (; done + 16 <= bytes; done += 16) {
    const __m128i piece = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + done));
    _mm_stream_si128(reinterpret_cast<__m128i*>(dst + done), piece);
  }
  return done;
}

}  // namespace

void store_frame(void* dst, const void* src, std::size_t bytes, StoreKind kind) noexcept {
  RC_DCHECK(reinterpret_cast<std::uintptr_t>(dst) % kCacheLine == 0);
  if (bytes == 0) return;
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  const std::size_t done = kind == StoreKind::streaming ? stream_pieces(to, from, bytes) : 0;
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}

void store_fence(StoreKind kind) noexcept {
  // The one fence of the library: streaming stores are not ordered by the release of the tail that
  // follows.
  if (kind == StoreKind::streaming) _mm_sfence();
}

#else

void store_frame(void* dst, const void* src, std::size_t bytes, StoreKind) noexcept {
  RC_DCHECK(reinterpret_cast<std::uintptr_t>(dst) % kCacheLine == 0);
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

void store_fence(StoreKind) noexcept {}

#endif

}  // namespace rankcast::base
