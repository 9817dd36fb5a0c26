#include "bench/lib/host_checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "bench/lib/kernel_library.h"
#include "rankcast/kernel_abi.h"

namespace rankcast::bench {
namespace {

std::vector<std::byte> bytes_of_size(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

std::int64_t by_kernel(const rankcast_kernel& kernel, const std::vector<std::byte>& bytes) {
  std::vector<std::byte> copy = bytes;
  std::int64_t result = 0;
  std::int64_t shapes[] = {static_cast<std::int64_t>(bytes.size()), 1};
  std::int64_t stride = 1;
  const DLTensor tensors[] = {
      {copy.data(), {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, &shapes[0], &stride, 0},
      {&result, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, &shapes[1], &stride, 0}};
  const std::uint8_t tags[] = {RANKCAST_IN, RANKCAST_OUT};
  rankcast_call call{};
  call.struct_size = sizeof(call);
  call.tensor_count = 2;
  call.tensors = tensors;
  call.tags = tags;
  rankcast_failure failure{};
  rankcast_kernel_context context{};
  context.struct_size = sizeof(context);
  EXPECT_EQ(kernel.run(&context, nullptr, &call, &failure), RANKCAST_OK) << failure.text;
  return result;
}

TEST(HostChecksum, AgreesWithTheBuiltinKernelAtEverySizeAroundItsGroups) {
  const KernelLibrary library = KernelLibrary::open(RANKCAST_TEST_KERNELS);
  const rankcast_kernel& kernel = library.find("rankcast.checksum");
  for (std::size_t size = 1; size < 200; ++size) {
    const std::vector<std::byte> bytes = bytes_of_size(size);
    EXPECT_EQ(host_checksum(bytes), by_kernel(kernel, bytes)) << size << " bytes";
  }
}

TEST(HostChecksum, EveryBitCounts) {
  std::vector<std::byte> bytes = bytes_of_size(77);
  const std::int64_t before = host_checksum(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_NE(host_checksum(bytes), before) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
}

TEST(HostChecksum, LengthCountsAlsoWhereTheBytesAreZero) {
  const std::vector<std::byte> zeros(16, std::byte{0});
  EXPECT_NE(host_checksum(std::span(zeros).first(8)), host_checksum(std::span(zeros).first(7)));
}

}  // namespace
}  // namespace rankcast::bench
