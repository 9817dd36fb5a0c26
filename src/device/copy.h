// Copies between strided layouts in memory that the calling thread reaches: for devices whose
// memory is the host's.
#pragma once

#include "device/device.h"

namespace rankcast::device {

/// Copies every element in the calling thread. Dimensions that follow each other without a gap on
/// both sides are taken as one, the destination is written in the order of its addresses; what is
/// dense on both sides, or in the same order on both, is one memcpy. Allocates nothing.
void copy_elements(const Copy& copy) noexcept;

}  // namespace rankcast::device
