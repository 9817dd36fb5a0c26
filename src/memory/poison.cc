#include "memory/poison.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

#if defined(__SANITIZE_ADDRESS__)
#define RANKCAST_WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RANKCAST_WITH_ASAN 1
#endif
#endif

#ifdef RANKCAST_WITH_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace rankcast::memory {

bool poison_fills() noexcept {
  static const bool fills = [] {
    const char* value = std::getenv("RANKCAST_POISON");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return fills;
}

void poison(void* data, std::size_t bytes, bool fill) noexcept {
  if (fill) std::memset(data, kPoisonByte, bytes);
#ifdef RANKCAST_WITH_ASAN
  __asan_poison_memory_region(data, bytes);
#endif
}

void unpoison([[maybe_unused]] const void* data, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef RANKCAST_WITH_ASAN
  __asan_unpoison_memory_region(data, bytes);
#endif
}

bool is_poisoned([[maybe_unused]] const void* byte) noexcept {
#ifdef RANKCAST_WITH_ASAN
  return __asan_address_is_poisoned(byte) != 0;
#else
  return false;
#endif
}

}  // namespace rankcast::memory
