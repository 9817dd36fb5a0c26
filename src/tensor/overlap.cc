// A view's elements are sums  offset + x0 s0 + x1 s1 + ...  with 0 <= xi < ni.  Two views meet
// where
//
//   x0 s0 + x1 s1 + ... - y0 t0 - y1 t1 - ...  =  offset of b - offset of a
//
// has a solution. The terms are taken from the largest stride on, at each level one of them, or one
// of either side whose strides have a large common divisor: then what all later levels can add up
// to leaves few values for this one. Of a row-major tensor, two slices of one dimension have a
// multiple of its stride in common, and later dimensions together add up to less than that stride:
// two values at most. For one value, two terms are a linear congruence.
#include "tensor/overlap.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "rankcast/dtype.h"
#include "rankcast/shape.h"

namespace rankcast::tensor {

namespace {

// The dimensions, and the bytes of an element where they count.
constexpr std::size_t kMaxTerms = kMaxDims + 1;
constexpr int kMaxSteps = 4096;
// Spans below this leave sums of two of them room in 63 bits.
constexpr std::uint64_t kMaxSpan = std::uint64_t{1} << 61;

struct Term {
  std::int64_t stride = 0;
  std::int64_t count = 1;

  std::int64_t span() const noexcept { return stride * (count - 1); }
};

/// Dimensions of more than one element, the largest stride first.
class Terms {
 public:
  /// Strides in units of `unit` bytes: the element's size, or 1.
  Terms(const detail::Layout& layout, std::int64_t unit) noexcept {
    const auto item = static_cast<std::int64_t>(size_bytes(layout.dtype));
    for (std::size_t dim = 0; dim < layout.dims; ++dim) {
      add({layout.strides[dim] * (item / unit), layout.shape[dim]});
    }
    if (unit < item) add({1, item});
  }

  std::size_t size() const noexcept { return size_; }
  const Term& operator[](std::size_t i) const noexcept { return terms_[i]; }
  const Term* begin() const noexcept { return terms_.data(); }
  const Term* end() const noexcept { return terms_.data() + size_; }

 private:
  void add(Term term) noexcept {
    if (term.count == 1) return;
    std::size_t at = size_++;
    for (; at > 0 && terms_[at - 1].stride < term.stride; --at) terms_[at] = terms_[at - 1];
    terms_[at] = term;
  }

  std::array<Term, kMaxTerms> terms_{};
  std::size_t size_ = 0;
};

std::int64_t floor_div(std::int64_t a, std::int64_t b) noexcept {
  return a / b - static_cast<std::int64_t>(a % b < 0);
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return -floor_div(-a, b); }
std::int64_t floor_mod(std::int64_t a, std::int64_t b) noexcept {
  const std::int64_t rest = a % b;
  return rest < 0 ? rest + b : rest;
}

std::int64_t product_mod(std::int64_t a, std::int64_t b, std::int64_t modulus) noexcept {
  return static_cast<std::int64_t>(static_cast<__int128>(a) * b % modulus);
}

// The inverse of `a` modulo `modulus`, which have no divisor in common.
std::int64_t inverse_mod(std::int64_t a, std::int64_t modulus) noexcept {
  std::int64_t r0 = modulus, r1 = a % modulus, t0 = 0, t1 = 1;
  while (r1 != 0) {
    const std::int64_t quotient = r0 / r1;
    r0 = std::exchange(r1, r0 - quotient * r1);
    t0 = std::exchange(t1, t0 - quotient * t1);
  }
  return floor_mod(t0, modulus);
}

/// One term of either side, or of both: the sums  x a.stride - y b.stride.
class Level {
 public:
  Level() = default;
  Level(Term a, Term b) noexcept : a_(a), b_(b), divisor_(std::gcd(a.stride, b.stride)) {
    a_.stride /= divisor_;
    b_.stride /= divisor_;
    if (b_.stride > 1) inverse_ = inverse_mod(a_.stride, b_.stride);
  }

  /// Every sum is a multiple of this.
  std::int64_t divisor() const noexcept { return divisor_; }
  std::int64_t least() const noexcept { return -b_.span(); }    // in units of the divisor
  std::int64_t greatest() const noexcept { return a_.span(); }  // likewise

  /// Whether `sum` times the divisor is one of the sums.
  bool has(std::int64_t sum) const noexcept {
    if (a_.stride == 0) return sum <= 0 && -sum < b_.count;  // divided, its stride is 1
    if (b_.stride == 0) return sum >= 0 && sum < a_.count;
    // x a = sum modulo b, for the x that leave y in its range
    const std::int64_t first = std::max<std::int64_t>(0, ceil_div(sum, a_.stride));
    const std::int64_t last = std::min(a_.count - 1, floor_div(sum + b_.span(), a_.stride));
    if (first > last) return false;
    const std::int64_t x = product_mod(floor_mod(sum, b_.stride), inverse_, b_.stride);
    return floor_mod(x - first, b_.stride) <= last - first;
  }

 private:
  Term a_, b_;  // strides divided by the divisor; 0 where the side has no term here
  std::int64_t divisor_ = 1;
  std::int64_t inverse_ = 0;  // of a_.stride modulo b_.stride
};

class Search {
 public:
  Search(const Terms& a, const Terms& b) noexcept {
    std::int64_t span = 0;  // of what is left
    for (const Term& term : a) span += term.span();
    for (const Term& term : b) span += term.span();
    std::size_t i = 0, j = 0;
    while (i < a.size() || j < b.size()) {
      const Term left = i < a.size() ? a[i] : Term{};
      const Term right = j < b.size() ? b[j] : Term{};
      const Term& larger = left.stride >= right.stride ? left : right;
      const std::int64_t rest = span - left.span() - right.span();
      const bool both =
          left.stride != 0 && right.stride != 0 &&
          rest / std::gcd(left.stride, right.stride) <= (span - larger.span()) / larger.stride;
      const bool take_left = both || &larger == &left;
      const bool take_right = both || &larger == &right;
      levels_[size_++] = {take_left ? left : Term{}, take_right ? right : Term{}};
      span -= (take_left ? left.span() : 0) + (take_right ? right.span() : 0);
      i += static_cast<std::size_t>(take_left);
      j += static_cast<std::size_t>(take_right);
    }
    for (std::size_t level = size_; level-- > 0;) {
      const Level& at = levels_[level];
      low_[level] = low_[level + 1] + at.least() * at.divisor();
      high_[level] = high_[level + 1] + at.greatest() * at.divisor();
      divisor_[level] = std::gcd(divisor_[level + 1], at.divisor());
    }
  }

  /// Whether the levels from `level` on can add up to `sum`; true once the steps have run out.
  // NOLINTNEXTLINE(misc-no-recursion): 18 levels at most
  bool reaches(std::int64_t sum, std::size_t level = 0) noexcept {
    if (level == size_) return sum == 0;
    if (sum % divisor_[level] != 0) return false;
    const Level& at = levels_[level];
    const std::int64_t unit = at.divisor();
    const std::int64_t first = std::max(at.least(), ceil_div(sum - high_[level + 1], unit));
    const std::int64_t last = std::min(at.greatest(), floor_div(sum - low_[level + 1], unit));
    for (std::int64_t value = first; value <= last; ++value) {
      if (--steps_ < 0) return true;
      if (at.has(value) && reaches(sum - value * unit, level + 1)) return true;
    }
    return false;
  }

 private:
  std::array<Level, 2 * kMaxTerms> levels_;
  // Of the levels from there on: the least and greatest sum, what every sum is a multiple of.
  std::array<std::int64_t, 2 * kMaxTerms + 1> low_{}, high_{}, divisor_{};
  std::size_t size_ = 0;
  int steps_ = kMaxSteps;
};

// In which both offsets and all strides are whole: elements where the views agree, else bytes.
std::int64_t unit_of(const detail::Layout& a, const detail::Layout& b,
                     std::int64_t distance) noexcept {
  const auto item = static_cast<std::int64_t>(size_bytes(a.dtype));
  const bool whole = size_bytes(a.dtype) == size_bytes(b.dtype) && distance % item == 0;
  return whole ? item : 1;
}

// Whether its elements fill their span: from the smallest stride on, each fits to what is filled.
bool is_dense(const Terms& terms) noexcept {
  std::int64_t filled = 1;
  for (std::size_t i = terms.size(); i-- > 0;) {
    if (terms[i].stride > filled) return false;
    filled += terms[i].span();
  }
  return true;
}

// Writes a place as x0 s0 + x1 s1 + ... with every x in its range; false if this way of doing it
// fails. There is no other way where each stride exceeds what the later ones can add up to.
bool write_digits(const Terms& terms, std::int64_t place,
                  std::array<std::int64_t, kMaxTerms>* digits) noexcept {
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const std::int64_t digit = std::min(place / terms[i].stride, terms[i].count - 1);
    (*digits)[i] = digit;
    place -= digit * terms[i].stride;
  }
  return place == 0;
}

}  // namespace

bool overlap(const detail::Layout& a, std::uint64_t offset_a, const detail::Layout& b,
             std::uint64_t offset_b) noexcept {
  if (offset_a >= offset_b + b.extent_bytes || offset_b >= offset_a + a.extent_bytes) return false;
  if (offset_a == offset_b || a.extent_bytes >= kMaxSpan || b.extent_bytes >= kMaxSpan) return true;
  const auto distance = static_cast<std::int64_t>(offset_b - offset_a);
  const std::int64_t unit = unit_of(a, b, distance);
  return Search(Terms(a, unit), Terms(b, unit)).reaches(distance / unit);
}

bool covers(const detail::Layout& a, std::uint64_t offset_a, const detail::Layout& b,
            std::uint64_t offset_b) noexcept {
  if (offset_b < offset_a || offset_b + b.extent_bytes > offset_a + a.extent_bytes) return false;
  if (offset_a == offset_b && a == b) return true;
  if (a.extent_bytes >= kMaxSpan) return false;
  const auto distance = static_cast<std::int64_t>(offset_b - offset_a);
  const std::int64_t unit = unit_of(a, b, distance);
  const Terms outer(a, unit);
  if (is_dense(outer)) return true;
  // The digits of b's first element and of b's strides, in a's strides, tell in which digits b
  // moves and how far.
  const Terms inner(b, unit);
  std::array<std::int64_t, kMaxTerms> reached{};
  if (!write_digits(outer, distance / unit, &reached)) return false;
  for (const Term& term : inner) {
    std::array<std::int64_t, kMaxTerms> step{};
    if (!write_digits(outer, term.stride, &step)) return false;
    for (std::size_t i = 0; i < outer.size(); ++i) reached[i] += step[i] * (term.count - 1);
  }
  for (std::size_t i = 0; i < outer.size(); ++i) {
    if (reached[i] >= outer[i].count) return false;
  }
  return true;
}

}  // namespace rankcast::tensor
