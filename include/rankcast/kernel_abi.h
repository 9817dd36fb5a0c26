/* The kernel ABI, version 1, in C: what a kernel library exports and what its kernels are given.
 *
 * A library exports one symbol, `rankcast_kernels`, of type `rankcast_kernel_table`. Every struct
 * that may grow begins with its size; a reader looks at no field past the size that the writer
 * gave. A kernel never throws or longjmps across these functions: failure is a non-zero status and
 * a text.
 *
 * Life of a kernel, in order:
 *   check    on the host, in the thread that submits, while it holds no lock. Sees shapes, dtypes,
 * strides and scalars; every `data` is null. May be skipped for a call whose every visible detail
 * equals an earlier one that passed. prepare  on the rank, when a frame arrives whose (kernel,
 * shapes, dtypes, strides) it has not met yet. May build state, and asks for workspace. For a group
 * it runs on all members in lane order and may meet its peers. run      on the rank, once a task.
 * `data` points at the first element, in memory that the device can reach. release  on the rank,
 * once for each successful prepare, before the library is closed. check and run may be called from
 * several threads at once for different calls; prepare, run and release of one state are called by
 * one rank's thread alone.
 */
#pragma once

#include <stdint.h>

#include "rankcast/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RANKCAST_KERNEL_ABI_VERSION 1u

/* Status of a kernel function. Anything but 0 is failure. */
#define RANKCAST_OK 0
#define RANKCAST_FAILED 1

/* Bytes of the text of a failure, the final 0 included. Longer texts are cut. */
#define RANKCAST_FAILURE_TEXT_BYTES 184

typedef struct {
  int32_t argument; /* index among the tensors of the call; -1: no single one is at fault */
  int32_t reserved;
  char text[RANKCAST_FAILURE_TEXT_BYTES]; /* UTF-8, what was found and what was wanted */
} rankcast_failure;

typedef enum { RANKCAST_SCALAR_I64 = 1, RANKCAST_SCALAR_F64 = 2 } rankcast_scalar_type;

typedef struct {
  int32_t type; /* a rankcast_scalar_type */
  int32_t reserved;
  union {
    int64_t i64;
    double f64;
  } value;
} rankcast_scalar;

/* The tags of arguments, as the orchestrator gave them. */
typedef enum {
  RANKCAST_IN = 1,
  RANKCAST_OUT = 2,
  RANKCAST_INOUT = 3,
  RANKCAST_NO_DEP = 4
} rankcast_tag;

/* One launch. All pointers are valid until the function returns. */
typedef struct {
  uint32_t struct_size;
  uint32_t tensor_count;
  const DLTensor* tensors;
  const uint8_t* tags; /* one rankcast_tag a tensor */
  uint32_t scalar_count;
  uint32_t reserved;
  const rankcast_scalar* scalars;
} rankcast_call;

/* Where a kernel runs. Owned by the rank; valid until the function returns. */
typedef struct {
  uint32_t struct_size;
  uint32_t abi_version;
  int32_t rank;
  int32_t world_size;
  void* stream;    /* the device's queue (a cudaStream_t, a cl_command_queue); null on cpu */
  void* workspace; /* as asked for in prepare; null when nothing was asked */
  uint64_t workspace_bytes; /* at least what was asked for */
  /* Not zero: give up. A kernel that waits for its peers must read it (atomically, acquire) in each
   * turn of its wait and return RANKCAST_FAILED when it is set. Never null in run. */
  const uint32_t* abort_word;
  /* For a group: its ranks in group order, and which of them this one is. member_count is 0 for a
   * single task. */
  const int32_t* members;
  int32_t member_count;
  int32_t member_index;
  /* For a group: a block of memory of this member that all members can read and write, zeroed
   * before the first run with this preparation, and the bases of all members' blocks in group
   * order. */
  void* shared;
  uint64_t shared_bytes;
  void* const* peer_shared;
  const void* link_extension; /* null but on the MPI link */
} rankcast_kernel_context;

/* What prepare answers. Zeroed before the call. */
typedef struct {
  uint32_t struct_size;
  uint32_t reserved;
  void* state; /* given back to run and release */
  uint64_t
      workspace_bytes;   /* needed during run; 256-byte aligned, contents not kept between runs */
  uint64_t shared_bytes; /* for a group: bytes of each member's shared block */
} rankcast_preparation;

typedef struct {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  /* "library.kernel": lower case letters, digits, '_' and one '.' at least; unique in a mesh. */
  const char* name;
  /* Null: every call passes. `failure` is zeroed but for argument = -1. */
  int (*check)(const rankcast_call* call, rankcast_failure* failure);
  /* Null: nothing to prepare, run gets a null state. `tensors` have no data yet. */
  int (*prepare)(const rankcast_kernel_context* context, const rankcast_call* call,
                 rankcast_preparation* preparation, rankcast_failure* failure);
  /* Never null. */
  int (*run)(const rankcast_kernel_context* context, void* state, const rankcast_call* call,
             rankcast_failure* failure);
  /* Null: nothing to release. */
  void (*release)(void* state);
} rankcast_kernel;

typedef struct {
  uint32_t
      abi_version; /* RANKCAST_KERNEL_ABI_VERSION of the header that the library was built with */
  uint32_t struct_size; /* sizeof(rankcast_kernel_table) */
  uint32_t kernel_size; /* sizeof(rankcast_kernel): the distance between entries */
  uint32_t kernel_count;
  const rankcast_kernel* kernels;
  const char* library_name;    /* for messages; static */
  const char* library_version; /* for messages; static */
} rankcast_kernel_table;

/* The symbol that a library defines; exported also from one that is built with hidden visibility.
 */
#define RANKCAST_KERNELS_SYMBOL "rankcast_kernels"
__attribute__((visibility("default"))) extern const rankcast_kernel_table rankcast_kernels;

#ifdef __cplusplus
}
#endif
