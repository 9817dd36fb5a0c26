// A kernel library of two kernels whose macros plant one fault each.
#include <cstdint>

#include "rankcast/kernel_abi.h"

#ifndef TEST_ABI_VERSION
#define TEST_ABI_VERSION RANKCAST_KERNEL_ABI_VERSION
#endif
#ifndef TEST_TABLE_SIZE
#define TEST_TABLE_SIZE sizeof(rankcast_kernel_table)
#endif
#ifndef TEST_KERNEL_SIZE
#define TEST_KERNEL_SIZE sizeof(Kernel)
#endif
#ifndef TEST_STRUCT_SIZE
#define TEST_STRUCT_SIZE sizeof(Kernel)
#endif
#ifndef TEST_KERNEL_COUNT
#define TEST_KERNEL_COUNT 2u
#endif
#ifndef TEST_FIRST_NAME
#define TEST_FIRST_NAME "test.first"
#endif
#ifndef TEST_SECOND_NAME
#define TEST_SECOND_NAME "test.second"
#endif
#ifndef TEST_SECOND_RUN
#define TEST_SECOND_RUN run
#endif
#ifdef TEST_NULL_KERNELS
#define TEST_KERNELS nullptr
#else
#define TEST_KERNELS &kKernels[0].now
#endif

#ifdef TEST_UNRESOLVED
extern "C" int rankcast_test_nobody_defines_this();
#endif

namespace {

/// A kernel as a later header has it may be larger.
struct Kernel {
  rankcast_kernel now;
#ifdef TEST_LATER_HEADER
  std::uint64_t later[3] = {~0u, ~0u, ~0u};
#endif
};

[[maybe_unused]] int run(const rankcast_kernel_context* /*context*/, void* state,
                         const rankcast_call* /*call*/, rankcast_failure* /*failure*/) {
#ifdef TEST_UNRESOLVED
  return rankcast_test_nobody_defines_this();
#endif
  return state == nullptr ? RANKCAST_OK : RANKCAST_FAILED;
}

[[maybe_unused]] constexpr Kernel kKernels[] = {
    {.now = {.struct_size = TEST_STRUCT_SIZE,
             .flags = 0,
             .name = TEST_FIRST_NAME,
             .check = nullptr,
             .prepare = nullptr,
             .run = run,
             .release = nullptr}},
    {.now = {.struct_size = TEST_STRUCT_SIZE,
             .flags = 0,
             .name = TEST_SECOND_NAME,
             .check = nullptr,
             .prepare = nullptr,
             .run = TEST_SECOND_RUN,
             .release = nullptr}},
};

}  // namespace

#ifndef TEST_NO_SYMBOL
const rankcast_kernel_table rankcast_kernels = {
    .abi_version = TEST_ABI_VERSION,
    .struct_size = TEST_TABLE_SIZE,
    .kernel_size = TEST_KERNEL_SIZE,
    .kernel_count = TEST_KERNEL_COUNT,
    .kernels = TEST_KERNELS,
    .library_name = "test",
    .library_version = "1.2.3",
};
#endif
