// Makes use of freed tensor memory visible.
//
// Under AddressSanitizer the first access to poisoned memory is reported. Elsewhere, and there too,
// RANKCAST_POISON=1 in the environment fills what is poisoned with `kPoisonByte`: a reader of freed
// memory sees that instead of plausible numbers. Neither: nothing happens. Only for memory that
// this process maps. Any thread.
#pragma once

#include <cstddef>

namespace rankcast::memory {

inline constexpr unsigned char kPoisonByte = 0xdb;

/// True when RANKCAST_POISON is exactly "1". Read once, at the first call.
bool poison_fills() noexcept;

/// Nobody may touch these bytes until `unpoison`. `fill` says whether to write `kPoisonByte` over
/// them first.
void poison(void* data, std::size_t bytes, bool fill = poison_fills()) noexcept;

/// These bytes may be used again.
void unpoison(const void* data, std::size_t bytes) noexcept;

/// For tests: true when AddressSanitizer would report an access to this byte.
bool is_poisoned(const void* byte) noexcept;

}  // namespace rankcast::memory
