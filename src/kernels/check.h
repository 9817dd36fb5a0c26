// What the built-in kernels ask of their arguments. Each function returns RANKCAST_OK, or fills
// `failure` and returns RANKCAST_FAILED. No allocation.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/element.h"
#include "rankcast/dlpack.h"
#include "rankcast/kernel_abi.h"

namespace rankcast::kernels {

/// A part of a message, on the stack.
using Text = std::array<char, 96>;

/// "f32"; what was found where that is no dtype of ours.
Text dtype_text(DLDataType type);

/// "[8, 16]".
Text shape_text(const DLTensor& tensor);

/// Fails with a printf text; `argument` is -1 when no single one is at fault.
[[gnu::format(printf, 3, 4)]] int fail(rankcast_failure* failure, std::int32_t argument,
                                       const char* format, ...);

/// Exactly `count` scalars.
int require_scalars(const rankcast_call& call, std::uint32_t count, rankcast_failure* failure);

/// A dtype of ours.
int require_known_dtype(const rankcast_call& call, std::uint32_t argument,
                        rankcast_failure* failure);

// The cold halves of the three functions after them: they say what is wrong.
int fail_same(const rankcast_call& call, std::uint32_t argument, std::uint32_t model,
              rankcast_failure* failure);
int fail_readable(const rankcast_call& call, std::uint32_t argument, rankcast_failure* failure);
int fail_writable(const rankcast_call& call, std::uint32_t argument, rankcast_failure* failure);

/// The dtype and the shape of argument `model`.
inline int require_same(const rankcast_call& call, std::uint32_t argument, std::uint32_t model,
                        rankcast_failure* failure) {
  const DLTensor& found = call.tensors[argument];
  const DLTensor& wanted = call.tensors[model];
  bool same = same_dtype(found.dtype, wanted.dtype) && found.ndim == wanted.ndim;
  // Arguments of one layout often share its array of extents.
  for (std::int32_t dim = 0; same && found.shape != wanted.shape && dim < wanted.ndim; ++dim) {
    same = found.shape[dim] == wanted.shape[dim];
  }
  return same ? RANKCAST_OK : fail_same(call, argument, model, failure);
}

/// A tag that lets a kernel read it: in, inout or no_dep.
inline int require_readable(const rankcast_call& call, std::uint32_t argument,
                            rankcast_failure* failure) {
  const std::uint8_t tag = call.tags[argument];
  const bool readable = tag == RANKCAST_IN || tag == RANKCAST_INOUT || tag == RANKCAST_NO_DEP;
  return readable ? RANKCAST_OK : fail_readable(call, argument, failure);
}

/// A tag that lets a kernel write it: out, inout or no_dep.
inline int require_writable(const rankcast_call& call, std::uint32_t argument,
                            rankcast_failure* failure) {
  const std::uint8_t tag = call.tags[argument];
  const bool writable = tag == RANKCAST_OUT || tag == RANKCAST_INOUT || tag == RANKCAST_NO_DEP;
  return writable ? RANKCAST_OK : fail_writable(call, argument, failure);
}

}  // namespace rankcast::kernels
