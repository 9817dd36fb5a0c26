#include "bench/lib/dl_type.h"

namespace rankcast::bench {

namespace {

DLDataTypeCode code_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
      return kDLFloat;
    case DType::bf16:
      return kDLBfloat;
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
      return kDLInt;
    case DType::u8:
      return kDLUInt;
    case DType::boolean:
      return kDLBool;
  }
  return kDLOpaqueHandle;
}

}  // namespace

DLDataType dl_type(DType dtype) noexcept {
  return {static_cast<std::uint8_t>(code_of(dtype)),
          static_cast<std::uint8_t>(size_bytes(dtype) * 8), 1};
}

}  // namespace rankcast::bench
