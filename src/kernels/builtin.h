// The built-in kernels, one by one. They are an ordinary kernel library: `librankcast_kernels.so`
// exports `rankcast_kernels` alone and sees public headers only.
//
// All of them: extents and strides are positive, strides may leave gaps and need no order; no
// scalars but where said; nothing is prepared and no workspace is asked for but where said; nothing
// allocates. An output must share no byte with another argument, which nobody checks. `check`
// compares dtypes, shapes and tags and names the argument at fault; `run` relies on it.
#pragma once

#include "rankcast/kernel_abi.h"

namespace rankcast::kernels {

/// rankcast.fill (out; value): every element of `out` becomes `value`.
///
/// out: any dtype and shape. value: an i64 or f64 scalar. A floating-point dtype takes the nearest
/// value (f16 and bf16 by way of f32; beyond the range it is infinite). An integer dtype takes only
/// what it can hold exactly, bool only 0 and 1: anything else fails in `check`, naming the value.
int check_fill(const rankcast_call* call, rankcast_failure* failure);
int run_fill(const rankcast_kernel_context* context, void* state, const rankcast_call* call,
             rankcast_failure* failure);

/// rankcast.copy (in, out): out[i] = in[i], bit by bit.
///
/// in, out: one dtype and shape, any of them. Dense on both sides: one memcpy.
int check_copy(const rankcast_call* call, rankcast_failure* failure);
int run_copy(const rankcast_kernel_context* context, void* state, const rankcast_call* call,
             rankcast_failure* failure);

/// rankcast.sum (in_0, ..., in_n-1, out), n >= 1: out[i] = ((in_0[i] + in_1[i]) + ...) + in_n-1[i].
///
/// One shape and one dtype, any but bool. Added in that order whatever the sizes and strides are,
/// so that a plain loop gives the same bits; f16 and bf16 are added in f32 and rounded once, to
/// nearest even; integers wrap around. Cost: a few ns a tensor and the memory's speed for elements.
int check_sum(const rankcast_call* call, rankcast_failure* failure);
int run_sum(const rankcast_kernel_context* context, void* state, const rankcast_call* call,
            rankcast_failure* failure);

/// rankcast.all_sum (in, out), a group: out[i] = ((in[i] of member 0 + in[i] of member 1) + ...).
///
/// in, out: f32 or i64, one shape on all members, without gaps. Every member puts its elements into
/// the memory that the group shares, waits for its peers, and adds theirs in the order of members,
/// so that all get the same bits; integers wrap around. Takes 64 bytes and the elements of shared
/// memory. Fails on a task that is no member of a group, and when the group is told to give up.
int check_all_sum(const rankcast_call* call, rankcast_failure* failure);
int prepare_all_sum(const rankcast_kernel_context* context, const rankcast_call* call,
                    rankcast_preparation* preparation, rankcast_failure* failure);
int run_all_sum(const rankcast_kernel_context* context, void* state, const rankcast_call* call,
                rankcast_failure* failure);
void release_all_sum(void* state);

/// rankcast.checksum (in_0, ..., in_n-1, out), n >= 1: out[k] = the checksum of in_k.
///
/// in_k: any dtype and shape, each its own. out: i64 of shape [n]. The checksum is a function of
/// the m bytes that the elements have in row-major order, without gaps; strides do not matter:
///
///   w_0, w_1, ...   the bytes in groups of 8, each a little-endian u64, the last filled with zeros
///   mix(h, w)       x = h xor w;  x = x xor (x >> 32);  x * 0x9E3779B97F4A7C15 modulo 2^64
///   four lanes      h_0 = 1, h_1 = 2, h_2 = 3, h_3 = 4
///   for each j      h_(j mod 4) = mix(h_(j mod 4), w_j)
///   at the end      s = m;  s = mix(s, h_0), mix(s, h_1), mix(s, h_2), mix(s, h_3);
///                   the result is s xor (s >> 32), its bits as an i64
///
/// Each step is invertible, so tensors that differ within one 8-byte word never have equal
/// checksums; others have by chance alone. It does not withstand someone who wants a collision.
int check_checksum(const rankcast_call* call, rankcast_failure* failure);
int run_checksum(const rankcast_kernel_context* context, void* state, const rankcast_call* call,
                 rankcast_failure* failure);

}  // namespace rankcast::kernels
