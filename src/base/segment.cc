#include "base/segment.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/fault_point.h"

namespace rankcast::base {

Result<Segment> Segment::reserve(std::size_t bytes) {
  if (bytes == 0) {
    return unexpected_failure(ErrorCode::invalid_argument, "a segment of 0 bytes was asked for");
  }
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* base = MAP_FAILED;
  std::size_t rounded = 0;
  if (bytes > std::numeric_limits<std::size_t>::max() - page ||
      RANKCAST_FAULT_POINT("base.segment_reserve")) {
    errno = ENOMEM;
  } else {
    rounded = (bytes + page - 1) / page * page;
    base = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (base == MAP_FAILED) {
    return unexpected_failure(ErrorCode::out_of_memory,
                              "{} bytes of address space cannot be reserved: {}", bytes,
                              std::strerror(errno));
  }
  return Segment(static_cast<std::byte*>(base), rounded);
}

Segment::Segment(Segment&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this != &other) {
    release();
    base_ = std::exchange(other.base_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Segment::~Segment() { release(); }

void Segment::release() noexcept {
  if (base_ != nullptr) munmap(base_, bytes_);
}

}  // namespace rankcast::base
