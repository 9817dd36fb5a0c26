#include "kernels/check.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "kernels/element.h"

namespace rankcast::kernels {
namespace {

const char* name_of(std::uint8_t tag) {
  switch (tag) {
    case RANKCAST_IN:
      return "in";
    case RANKCAST_OUT:
      return "out";
    case RANKCAST_INOUT:
      return "inout";
    case RANKCAST_NO_DEP:
      return "no_dep";
    default:
      return "unknown";
  }
}

}  // namespace

Text dtype_text(DLDataType type) {
  constexpr const char* kNames[] = {"",    "f64", "f32", "f16", "bf16", "i64",
                                    "i32", "i16", "i8",  "u8",  "bool"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == kDTypeCount + 1);
  Text text;
  if (const auto dtype = dtype_of(type)) {
    std::snprintf(text.data(), text.size(), "%s", kNames[static_cast<std::size_t>(*dtype)]);
  } else {
    std::snprintf(text.data(), text.size(), "unknown (DLPack code %d, %d bits, %d lanes)",
                  type.code, type.bits, type.lanes);
  }
  return text;
}

Text shape_text(const DLTensor& tensor) {
  Text text;
  std::size_t used = 0;
  const auto append = [&](const char* format, long long value) {
    const int wanted = std::snprintf(text.data() + used, text.size() - used, format, value);
    used = std::min(used + static_cast<std::size_t>(wanted), text.size() - 1);
  };
  for (std::int32_t dim = 0; dim < tensor.ndim; ++dim) {
    append(dim == 0 ? "[%lld" : ", %lld", static_cast<long long>(tensor.shape[dim]));
  }
  append("]", 0);
  return text;
}

int fail(rankcast_failure* failure, std::int32_t argument, const char* format, ...) {
  failure->argument = argument;
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(failure->text, sizeof(failure->text), format, values);
  va_end(values);
  return RANKCAST_FAILED;
}

int require_scalars(const rankcast_call& call, std::uint32_t count, rankcast_failure* failure) {
  if (call.scalar_count == count) return RANKCAST_OK;
  return fail(failure, -1, "%u scalar(s) given, but the kernel takes %u", call.scalar_count, count);
}

int require_known_dtype(const rankcast_call& call, std::uint32_t argument,
                        rankcast_failure* failure) {
  if (dtype_of(call.tensors[argument].dtype)) return RANKCAST_OK;
  return fail(failure, static_cast<std::int32_t>(argument), "argument %u: dtype %s", argument,
              dtype_text(call.tensors[argument].dtype).data());
}

int fail_same(const rankcast_call& call, std::uint32_t argument, std::uint32_t model,
              rankcast_failure* failure) {
  const auto at = static_cast<std::int32_t>(argument);
  const DLTensor& found = call.tensors[argument];
  const DLTensor& wanted = call.tensors[model];
  if (!same_dtype(found.dtype, wanted.dtype)) {
    return fail(failure, at, "argument %u: dtype %s, but argument %u has %s; they must be equal",
                argument, dtype_text(found.dtype).data(), model, dtype_text(wanted.dtype).data());
  }
  return fail(failure, at, "argument %u: shape %s, but argument %u has %s; they must be equal",
              argument, shape_text(found).data(), model, shape_text(wanted).data());
}

int fail_readable(const rankcast_call& call, std::uint32_t argument, rankcast_failure* failure) {
  return fail(failure, static_cast<std::int32_t>(argument),
              "argument %u: tag %s, but the kernel reads it: in, inout or no_dep", argument,
              name_of(call.tags[argument]));
}

int fail_writable(const rankcast_call& call, std::uint32_t argument, rankcast_failure* failure) {
  return fail(failure, static_cast<std::int32_t>(argument),
              "argument %u: tag %s, but the kernel writes it: out, inout or no_dep", argument,
              name_of(call.tags[argument]));
}

}  // namespace rankcast::kernels
