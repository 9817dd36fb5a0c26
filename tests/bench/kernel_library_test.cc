#include "bench/lib/kernel_library.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"

namespace rankcast::bench {
namespace {

TEST(BenchKernelLibrary, FindsTheBuiltinKernels) {
  const KernelLibrary library = KernelLibrary::open_builtin();
  for (const char* name : {"rankcast.sum", "rankcast.checksum"}) {
    EXPECT_STREQ(library.find(name).name, name);
    EXPECT_NE(library.find(name).run, nullptr);
  }
}

TEST(BenchKernelLibrary, NamesWhatIsMissing) {
  test::expect_error(ErrorCode::unsupported, {"no-such-library.so"},
                     [] { KernelLibrary::open("/no-such-library.so"); });
  test::expect_error(ErrorCode::unsupported, {"rankcast_kernels"},
                     [] { KernelLibrary::open("libdl.so.2"); });
  test::expect_error(ErrorCode::unsupported, {"rankcast.no_such_kernel"}, [] {
    KernelLibrary::open(RANKCAST_TEST_KERNELS).find("rankcast.no_such_kernel");
  });
}

}  // namespace
}  // namespace rankcast::bench
