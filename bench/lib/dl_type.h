// DLPack's name of an element type.
#pragma once

#include "rankcast/dlpack.h"
#include "rankcast/dtype.h"

namespace rankcast::bench {

/// The DLPack type of `dtype`, which must be one of the ten.
DLDataType dl_type(DType dtype) noexcept;

}  // namespace rankcast::bench
