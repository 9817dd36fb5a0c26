// A copy of bytes that lie without gaps on both sides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "tensor/layout.h"

namespace rankcast::device {

/// Must live until the signal has fired: the copy points to its layout.
class ByteCopy {
 public:
  ByteCopy(void* to, const void* from, std::size_t bytes)
      : layout_(tensor::contiguous_layout(DType::u8, Shape{static_cast<std::int64_t>(bytes)})),
        to_(to),
        from_(from) {}

  Copy copy() const { return {to_, &layout_, from_, &layout_}; }

 private:
  detail::Layout layout_;
  void* to_;
  const void* from_;
};

}  // namespace rankcast::device
