#include "device/copy.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "rankcast/dtype.h"
#include "rankcast/shape.h"

namespace rankcast::device {
namespace {

/// One dimension of both sides; strides in bytes.
struct Dim {
  std::int64_t count = 1;
  std::int64_t to = 0;
  std::int64_t from = 0;
};

/// What is left of the dimensions: the one with the largest stride of the destination first.
class Loops {
 public:
  explicit Loops(const Copy& copy) noexcept {
    const detail::Layout& to = *copy.destination_layout;
    const detail::Layout& from = *copy.source_layout;
    RC_DCHECK(to.dtype == from.dtype && to.shape == from.shape);
    const auto item = static_cast<std::int64_t>(size_bytes(to.dtype));
    for (std::size_t dim = 0; dim < to.dims; ++dim) {
      if (to.shape[dim] != 1) {
        insert({to.shape[dim], to.strides[dim] * item, from.strides[dim] * item});
      }
    }
    join();
    if (size_ == 0) size_ = 1;
  }

  std::size_t size() const noexcept { return size_; }
  const Dim& operator[](std::size_t i) const noexcept { return dims_[i]; }
  const Dim& innermost() const noexcept { return dims_[size_ - 1]; }

 private:
  void insert(const Dim& dim) noexcept {
    std::size_t at = size_++;
    for (; at > 0 && dims_[at - 1].to < dim.to; --at) dims_[at] = dims_[at - 1];
    dims_[at] = dim;
  }

  void join() noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 1; i < size_; ++i) {
      Dim& outer = dims_[kept];
      const Dim& inner = dims_[i];
      if (outer.to == inner.count * inner.to && outer.from == inner.count * inner.from) {
        outer = {outer.count * inner.count, inner.to, inner.from};
      } else {
        dims_[++kept] = inner;
      }
    }
    if (size_ != 0) size_ = kept + 1;
  }

  std::array<Dim, kMaxDims> dims_{};
  std::size_t size_ = 0;
};

template <std::size_t kBytes>
void copy_run(std::byte* to, const std::byte* from, const Dim& run) noexcept {
  if (run.count == 1 || (run.to == kBytes && run.from == kBytes)) {
    std::memcpy(to, from, static_cast<std::size_t>(run.count) * kBytes);
    return;
  }
  for (std::int64_t i = 0; i < run.count; ++i) {
    std::memcpy(to + i * run.to, from + i * run.from, kBytes);
  }
}

template <std::size_t kBytes>
void copy_all(const Copy& copy, const Loops& loops) noexcept {
  auto* to = static_cast<std::byte*>(copy.destination);
  const auto* from = static_cast<const std::byte*>(copy.source);
  std::array<std::int64_t, kMaxDims> index{};
  for (;;) {
    copy_run<kBytes>(to, from, loops.innermost());
    std::size_t level = loops.size() - 1;
    for (; level > 0; --level) {
      const Dim& dim = loops[level - 1];
      to += dim.to;
      from += dim.from;
      if (++index[level - 1] < dim.count) break;
      index[level - 1] = 0;
      to -= dim.count * dim.to;
      from -= dim.count * dim.from;
    }
    if (level == 0) return;
  }
}

}  // namespace

void copy_elements(const Copy& copy) noexcept {
  const Loops loops(copy);
  switch (size_bytes(copy.destination_layout->dtype)) {
    case 8:
      return copy_all<8>(copy, loops);
    case 4:
      return copy_all<4>(copy, loops);
    case 2:
      return copy_all<2>(copy, loops);
    default:
      return copy_all<1>(copy, loops);
  }
}

}  // namespace rankcast::device
