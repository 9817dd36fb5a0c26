// rankcast.fill
#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/element.h"
#include "kernels/strided.h"

namespace rankcast::kernels {
namespace {

template <class T>
T as_floating(const rankcast_scalar& value) {
  return value.type == RANKCAST_SCALAR_I64 ? static_cast<T>(value.value.i64)
                                           : static_cast<T>(value.value.f64);
}

std::optional<std::int64_t> as_integer(const rankcast_scalar& value) {
  if (value.type == RANKCAST_SCALAR_I64) return value.value.i64;
  const double real = value.value.f64;
  constexpr double kLimit = 9223372036854775808.0;  // 2^63, which an i64 does not reach
  if (!(real >= -kLimit && real < kLimit)) return std::nullopt;
  const auto integer = static_cast<std::int64_t>(real);
  if (static_cast<double>(integer) != real) return std::nullopt;
  return integer;
}

/// The element's bits in the low bytes; nothing when the dtype cannot hold the value.
std::optional<std::uint64_t> bits_of(const rankcast_scalar& value, DType dtype) {
  const auto within = [&](std::int64_t low, std::int64_t high) -> std::optional<std::uint64_t> {
    const std::optional<std::int64_t> integer = as_integer(value);
    if (!integer || *integer < low || *integer > high) return std::nullopt;
    return static_cast<std::uint64_t>(*integer);
  };
  switch (dtype) {
    case DType::f64:
      return std::bit_cast<std::uint64_t>(as_floating<double>(value));
    case DType::f32:
      return std::bit_cast<std::uint32_t>(as_floating<float>(value));
    case DType::f16:
      return f32_to_f16(as_floating<float>(value));
    case DType::bf16:
      return f32_to_bf16(as_floating<float>(value));
    case DType::i64:
      return within(std::numeric_limits<std::int64_t>::min(),
                    std::numeric_limits<std::int64_t>::max());
    case DType::i32:
      return within(std::numeric_limits<std::int32_t>::min(),
                    std::numeric_limits<std::int32_t>::max());
    case DType::i16:
      return within(std::numeric_limits<std::int16_t>::min(),
                    std::numeric_limits<std::int16_t>::max());
    case DType::i8:
      return within(std::numeric_limits<std::int8_t>::min(),
                    std::numeric_limits<std::int8_t>::max());
    case DType::u8:
      return within(0, std::numeric_limits<std::uint8_t>::max());
    case DType::boolean:
      return within(0, 1);
  }
  return std::nullopt;
}

int fail_value(const rankcast_scalar& value, const char* dtype, rankcast_failure* failure) {
  if (value.type == RANKCAST_SCALAR_I64) {
    return fail(failure, -1, "scalar 0: %lld, but argument 0 has dtype %s, which cannot hold it",
                static_cast<long long>(value.value.i64), dtype);
  }
  return fail(failure, -1, "scalar 0: %.17g, but argument 0 has dtype %s, which cannot hold it",
              value.value.f64, dtype);
}

template <class Word>
void fill_words(const DLTensor& out, Word word) {
  Word* data = static_cast<Word*>(out.data);
  Cursor cursor(out);
  cursor.take_all(element_count(out), [&](const Cursor::Piece& piece) {
    Word* first = data + piece.offset;
    if (piece.stride == 1) {
      std::fill_n(first, piece.count, word);
      return;
    }
    for (std::int64_t i = 0; i < piece.count; ++i) first[i * piece.stride] = word;
  });
}

}  // namespace

int check_fill(const rankcast_call* call, rankcast_failure* failure) {
  if (call->tensor_count != 1) {
    return fail(failure, -1, "%u tensor(s) given, but the kernel takes 1: out", call->tensor_count);
  }
  if (require_scalars(*call, 1, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  if (require_known_dtype(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  if (require_writable(*call, 0, failure) != RANKCAST_OK) return RANKCAST_FAILED;
  const rankcast_scalar& value = call->scalars[0];
  if (value.type != RANKCAST_SCALAR_I64 && value.type != RANKCAST_SCALAR_F64) {
    return fail(failure, -1, "scalar 0: type %d, but an i64 (1) or f64 (2) is wanted", value.type);
  }
  const DLDataType dtype = call->tensors[0].dtype;
  if (bits_of(value, *dtype_of(dtype))) return RANKCAST_OK;
  return fail_value(value, dtype_text(dtype).data(), failure);
}

int run_fill(const rankcast_kernel_context* /*context*/, void* /*state*/, const rankcast_call* call,
             rankcast_failure* failure) {
  const DLTensor& out = call->tensors[0];
  const std::optional<DType> dtype = dtype_of(out.dtype);
  const std::optional<std::uint64_t> bits =
      dtype ? bits_of(call->scalars[0], *dtype) : std::nullopt;
  // A scalar may have come later than the check.
  if (!bits) return fail_value(call->scalars[0], dtype_text(out.dtype).data(), failure);
  with_word(size_bytes(out.dtype),
            [&](auto word) { fill_words(out, static_cast<decltype(word)>(*bits)); });
  return RANKCAST_OK;
}

}  // namespace rankcast::kernels
