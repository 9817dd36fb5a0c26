#include "rankcast/dtype.h"

#include <array>

namespace rankcast {

namespace {

struct NamedDType {
  DType dtype;
  std::string_view name;
};

constexpr std::array<NamedDType, kDTypeCount> kNames{{
    {DType::f64, "f64"},
    {DType::f32, "f32"},
    {DType::f16, "f16"},
    {DType::bf16, "bf16"},
    {DType::i64, "i64"},
    {DType::i32, "i32"},
    {DType::i16, "i16"},
    {DType::i8, "i8"},
    {DType::u8, "u8"},
    {DType::boolean, "bool"},
}};

}  // namespace

std::string_view dtype_name(DType dtype) noexcept {
  for (const NamedDType& entry : kNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "unknown";
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (const NamedDType& entry : kNames) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace rankcast
