#include "base/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/fault_point.h"

namespace rankcast::base {

namespace {

Status no_memory(std::size_t bytes) {
  return failure(
      ErrorCode::out_of_memory,
      "{} bytes of address space cannot be reserved: {}; ask for less, free what is of no "
      "more use, or raise the limits (ulimit -v, vm.overcommit_memory)",
      bytes, std::strerror(errno));
}

// What mmap answers that was made to fail.
void* no_map() noexcept {
  errno = ENOMEM;
  return MAP_FAILED;
}

// In whole pages.
Result<std::size_t> rounded_up(std::size_t bytes) {
  if (bytes == 0) {
    return unexpected_failure(ErrorCode::invalid_argument, "a segment of 0 bytes was asked for");
  }
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > static_cast<std::size_t>(std::numeric_limits<off_t>::max()) - page ||
      RANKCAST_FAULT_POINT("base.segment_reserve")) {
    errno = ENOMEM;
    return tl::unexpected(no_memory(bytes));
  }
  return (bytes + page - 1) / page * page;
}

}  // namespace

Result<Segment> Segment::reserve(std::size_t bytes) {
  const auto rounded = rounded_up(bytes);
  if (!rounded) return tl::unexpected(rounded.error());
  void* base = RANKCAST_FAULT_POINT("base.map_private")
                   ? no_map()
                   : mmap(nullptr, *rounded, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return tl::unexpected(no_memory(bytes));
  return Segment(static_cast<std::byte*>(base), *rounded);
}

Result<SharedSegment> Segment::create_shared(std::size_t bytes) {
  const auto rounded = rounded_up(bytes);
  if (!rounded) return tl::unexpected(rounded.error());
  Fd fd(RANKCAST_FAULT_POINT("base.memfd")
            ? (errno = EMFILE, -1)
            : memfd_create("rankcast", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.empty()) return tl::unexpected(no_descriptor("memfd_create"));
  // Another user who found the descriptor in /proc could not open it.
  if (RANKCAST_FAULT_POINT("base.memfd_size")) {
    errno = ENOSPC;
    return tl::unexpected(no_memory(bytes));
  }
  if (fchmod(fd.get(), S_IRUSR | S_IWUSR) != 0 ||
      ftruncate(fd.get(), static_cast<off_t>(*rounded)) != 0)
    return tl::unexpected(no_memory(bytes));
  const int sealed = RANKCAST_FAULT_POINT("base.memfd_seal")
                         ? (errno = EPERM, -1)
                         : fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  if (sealed != 0) {
    return unexpected_failure(ErrorCode::internal, "sealing a memfd: {}", std::strerror(errno));
  }
  auto memory = map_shared(fd.get(), *rounded, true);
  if (!memory) return tl::unexpected(std::move(memory).error());
  return SharedSegment{std::move(*memory), std::move(fd)};
}

Result<Segment> Segment::map_shared(int fd, std::size_t bytes, bool writable) {
  struct stat status{};
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(fd, &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < bytes || bytes == 0) {
    return unexpected_failure(ErrorCode::internal, "descriptor {} is no sealed segment of {} bytes",
                              fd, bytes);
  }
  void* base = RANKCAST_FAULT_POINT("base.map_shared")
                   ? no_map()
                   : mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                          MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return tl::unexpected(no_memory(bytes));
  return Segment(static_cast<std::byte*>(base), bytes);
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
