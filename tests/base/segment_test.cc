#include "base/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/fault_point.h"

namespace rankcast::base {
namespace {

TEST(SegmentTest, IsPageAlignedZeroFilledAndWritable) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const Segment segment = Segment::reserve(page + 1).value();
  EXPECT_EQ(segment.bytes(), 2 * page);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.base()) % page, 0u);
  for (std::size_t i = 0; i < segment.bytes(); ++i) ASSERT_EQ(segment.base()[i], std::byte{0});
  segment.base()[segment.bytes() - 1] = std::byte{7};
  EXPECT_EQ(segment.base()[segment.bytes() - 1], std::byte{7});
}

TEST(SegmentTest, EightHeapsOf512MiBOpen) {
  std::vector<Segment> heaps;
  for (int i = 0; i < 8; ++i) {
    auto heap = Segment::reserve(std::size_t{512} << 20);
    ASSERT_TRUE(heap.has_value()) << heap.error().text;
    heap->base()[heap->bytes() / 2] = std::byte{1};
    heaps.push_back(std::move(*heap));
  }
}

TEST(SegmentTest, Moves) {
  Segment segment = Segment::reserve(1).value();
  std::byte* base = segment.base();
  Segment other = std::move(segment);
  EXPECT_EQ(other.base(), base);
  segment = Segment::reserve(1).value();
  segment = std::move(other);
  EXPECT_EQ(segment.base(), base);
  *segment.base() = std::byte{1};
  segment = Segment();
  EXPECT_EQ(segment.base(), nullptr);
  EXPECT_EQ(segment.bytes(), 0u);
}

void expect_refused(const Result<Segment>& refused, ErrorCode code, const char* part) {
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, code);
  EXPECT_NE(refused.error().text.find(part), std::string::npos) << refused.error().text;
}

TEST(SegmentTest, RefusalsNameTheBytes) {
  expect_refused(Segment::reserve(0), ErrorCode::invalid_argument, "0 bytes");
  expect_refused(Segment::reserve(std::numeric_limits<std::size_t>::max()),
                 ErrorCode::out_of_memory, "18446744073709551615 bytes");
  expect_refused(Segment::reserve(std::size_t{1} << 62), ErrorCode::out_of_memory,
                 "4611686018427387904 bytes");
  arm_fault_point("base.segment_reserve");
  expect_refused(Segment::reserve(4096), ErrorCode::out_of_memory, "Cannot allocate memory");
}

/// "r--s" of the mapping at an address, from the list of this process's.
std::string access_of(const std::byte* address) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::ostringstream wanted;
  wanted << std::hex << reinterpret_cast<std::uintptr_t>(address) << '-';
  while (std::getline(maps, line)) {
    if (line.starts_with(wanted.str())) return line.substr(line.find(' ') + 1, 4);
  }
  return {};
}

TEST(SharedSegment, IsOneMemoryForAllWhoMapIt) {
  SharedSegment shared = Segment::create_shared(10'000).value();
  EXPECT_EQ(shared.memory.bytes(), 12'288u);
  EXPECT_EQ(access_of(shared.memory.base()), "rw-s");
  for (std::size_t i = 0; i < shared.memory.bytes(); ++i)
    ASSERT_EQ(shared.memory.base()[i], std::byte{0});
  const Segment reader = Segment::map_shared(shared.fd.get(), shared.memory.bytes(), false).value();
  const Segment writer = Segment::map_shared(shared.fd.get(), shared.memory.bytes(), true).value();
  EXPECT_EQ(access_of(reader.base()), "r--s");
  EXPECT_EQ(access_of(writer.base()), "rw-s");
  shared.memory.base()[12'287] = std::byte{1};
  EXPECT_EQ(reader.base()[12'287], std::byte{1});
  writer.base()[0] = std::byte{2};
  EXPECT_EQ(reader.base()[0], std::byte{2});
  shared.fd.reset();
  writer.base()[1] = std::byte{3};
  EXPECT_EQ(shared.memory.base()[1], std::byte{3}) << "the mappings need no descriptor";
}

TEST(SharedSegment, IsSealedNamelessAndItsOwners) {
  const SharedSegment shared = Segment::create_shared(4096).value();
  const int fd = shared.fd.get();
  EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_EQ(ftruncate(fd, 0), -1);
  EXPECT_EQ(ftruncate(fd, 8192), -1);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  struct stat status{};
  ASSERT_EQ(fstat(fd, &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(status.st_nlink, 0u) << "it is in no folder";
}

TEST(SharedSegment, WhatIsNoneIsNotMapped) {
  const SharedSegment shared = Segment::create_shared(4096).value();
  expect_refused(Segment::map_shared(shared.fd.get(), 8192, true), ErrorCode::internal, "8192");
  expect_refused(Segment::map_shared(shared.fd.get(), 0, true), ErrorCode::internal, "0 bytes");
  expect_refused(Segment::map_shared(-1, 4096, true), ErrorCode::internal, "-1");
  const Fd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  expect_refused(Segment::map_shared(file.get(), 4096, false), ErrorCode::internal, "sealed");
  const Fd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  expect_refused(Segment::map_shared(unsealed.get(), 4096, true), ErrorCode::internal, "sealed");

  for (const std::size_t bytes : {std::size_t{0}, std::numeric_limits<std::size_t>::max()}) {
    EXPECT_FALSE(Segment::create_shared(bytes)) << bytes;
  }
  arm_fault_point("base.segment_reserve");
  const auto refused = Segment::create_shared(4096);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
}

TEST(SharedSegment, CostsMemoryOnlyWhereItIsTouched) {
  const SharedSegment shared = Segment::create_shared(std::size_t{8} << 30).value();
  shared.memory.base()[std::size_t{4} << 30] = std::byte{1};
  struct stat status{};
  ASSERT_EQ(fstat(shared.fd.get(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 10'000'000);
}

}  // namespace
}  // namespace rankcast::base
