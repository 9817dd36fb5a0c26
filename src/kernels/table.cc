// What the library exports.
#include <cstdint>

#include "kernels/builtin.h"
#include "rankcast/kernel_abi.h"
#include "rankcast/version.h"

namespace rankcast::kernels {
namespace {

using CheckFunction = decltype(rankcast_kernel::check);
using RunFunction = decltype(rankcast_kernel::run);

constexpr rankcast_kernel entry(const char* name, CheckFunction check, RunFunction run) {
  return {.struct_size = sizeof(rankcast_kernel),
          .flags = 0,
          .name = name,
          .check = check,
          .prepare = nullptr,
          .run = run,
          .release = nullptr};
}

constexpr rankcast_kernel kKernels[] = {
    {.struct_size = sizeof(rankcast_kernel),
     .flags = 0,
     .name = "rankcast.all_sum",
     .check = check_all_sum,
     .prepare = prepare_all_sum,
     .run = run_all_sum,
     .release = release_all_sum},
    entry("rankcast.checksum", check_checksum, run_checksum),
    entry("rankcast.copy", check_copy, run_copy),
    entry("rankcast.fill", check_fill, run_fill),
    entry("rankcast.sum", check_sum, run_sum),
};

}  // namespace
}  // namespace rankcast::kernels

const rankcast_kernel_table rankcast_kernels = {
    .abi_version = RANKCAST_KERNEL_ABI_VERSION,
    .struct_size = sizeof(rankcast_kernel_table),
    .kernel_size = sizeof(rankcast_kernel),
    .kernel_count = sizeof(rankcast::kernels::kKernels) / sizeof(rankcast_kernel),
    .kernels = rankcast::kernels::kKernels,
    .library_name = "rankcast",
    .library_version = RANKCAST_VERSION_STRING,
};
