// The checksum of the built-in kernel rankcast.checksum, computed on the host without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rankcast::bench {

/// As src/kernels/builtin.h defines it, of the bytes of a row-major tensor. About 1 ns for 16
/// bytes.
std::int64_t host_checksum(std::span<const std::byte> bytes) noexcept;

}  // namespace rankcast::bench
