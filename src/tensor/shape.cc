#include "rankcast/shape.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "rankcast/error.h"

namespace rankcast {

namespace {

constexpr std::uint64_t kMaxCount = std::numeric_limits<std::int64_t>::max();

std::string extents_text(std::span<const std::int64_t> extents) {
  constexpr std::size_t kShown = 16;
  const std::span<const std::int64_t> shown = extents.first(std::min(extents.size(), kShown));
  return fmt::format("[{}{}]", fmt::join(shown, ", "), extents.size() > kShown ? ", ..." : "");
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> extents) {
  assign({extents.begin(), extents.size()});
}

Shape::Shape(std::span<const std::int64_t> extents) { assign(extents); }

void Shape::assign(std::span<const std::int64_t> extents) {
  if (extents.empty()) {
    refuse("a shape needs at least one extent, and none was given; a single value has shape [1]");
  }
  if (extents.size() > kMaxDims) {
    refuse(fmt::format("shape {} has {} extents; at most {} are allowed", extents_text(extents),
                       extents.size(), kMaxDims));
  }
  std::int64_t count = 1;
  for (std::size_t dim = 0; dim < extents.size(); ++dim) {
    if (extents[dim] <= 0) {
      refuse(fmt::format("extent {} of shape {} is {}; every extent must be positive", dim,
                         extents_text(extents), extents[dim]));
    }
    if (__builtin_mul_overflow(count, extents[dim], &count)) {
      refuse(fmt::format("shape {} has more than {} elements: the product overflows at extent {}",
                         extents_text(extents), kMaxCount, dim));
    }
    extents_[dim] = extents[dim];
  }
  element_count_ = count;
  dims_ = static_cast<int>(extents.size());
}

std::uint64_t Shape::size_bytes(DType dtype) const {
  if (!is_valid(dtype)) {
    refuse(fmt::format("{} is no dtype", static_cast<unsigned>(dtype)));
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(element_count_),
                             rankcast::size_bytes(dtype), &bytes) ||
      bytes > kMaxCount) {
    refuse(fmt::format("a tensor {}{} has more than {} bytes", dtype_name(dtype), to_string(),
                       kMaxCount));
  }
  return bytes;
}

Shape Shape::tail() const {
  if (dims_ == 1) {
    refuse(
        fmt::format("shape {} has one extent, so nothing is left without its first", to_string()));
  }
  return Shape(extents().subspan(1));
}

Shape Shape::prepended(std::int64_t extent) const {
  std::array<std::int64_t, kMaxDims + 1> all{};
  all[0] = extent;
  std::copy(extents().begin(), extents().end(), all.begin() + 1);
  return Shape(std::span<const std::int64_t>(all).first(static_cast<std::size_t>(dims_) + 1));
}

std::string Shape::to_string() const { return extents_text(extents()); }

}  // namespace rankcast
