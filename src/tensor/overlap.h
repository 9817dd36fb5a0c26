// Whether two views of one buffer touch, and whether one hides the other.
//
// A view is a layout and the byte of the buffer at which it begins; its bytes are those of its
// elements. Both layouts must be valid. Pure functions; any thread; nothing is allocated.
//
// Cost: a few compares where the spans of bytes are apart, the beginnings are equal, or one is
// dense and the answer is plain. Else a search over the dimensions of both, from the largest stride
// on. For two views that slices (with steps) and transposes made of one row-major tensor it has at
// most two ways to go at each dimension: below 600 steps of some 20 ns at eight dimensions, about
// ten at two. Any other pair ends after at most 4,096 steps.
#pragma once

#include <cstdint>

#include "rankcast/tensor.h"

namespace rankcast::tensor {

/// False only if no byte belongs to an element of both. Exact, unless the search was cut short;
/// then true. Never cut short for two views of one row-major tensor (see above).
bool overlap(const detail::Layout& a, std::uint64_t offset_a, const detail::Layout& b,
             std::uint64_t offset_b) noexcept;

/// True only if every byte of `b`'s elements belongs to an element of `a`. Always found where it
/// holds for an `a` without gaps, in whichever order its elements lie, and for two views that
/// slices (with steps) and transposes made of one row-major tensor. At most 90 divisions.
bool covers(const detail::Layout& a, std::uint64_t offset_a, const detail::Layout& b,
            std::uint64_t offset_b) noexcept;

}  // namespace rankcast::tensor
