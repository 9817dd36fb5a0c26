// A set of ranks: one bit a rank, walked in as many 64-bit words as are in use.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace rankcast::base {

/// The most ranks a mesh can have.
inline constexpr int kMaxRanks = 1024;

inline constexpr std::size_t kRankWords = kMaxRanks / 64;

/// Any subset of 0..kMaxRanks-1. A plain value of 136 bytes, no allocation; costs grow with the
/// highest rank ever inserted, not with kMaxRanks. Every rank given must lie in range (checked
/// without NDEBUG).
class RankSet {
 public:
  constexpr RankSet() noexcept = default;

  /// {0, ..., count-1}.
  static constexpr RankSet first(int count) noexcept {
    RankSet set;
    for (int rank = 0; rank < count; ++rank) set.insert(rank);
    return set;
  }

  static constexpr RankSet of(int rank) noexcept {
    RankSet set;
    set.insert(rank);
    return set;
  }

  constexpr void insert(int rank) noexcept {
    const std::size_t word = word_of(rank);
    words_[word] |= bit_of(rank);
    if (word >= words_used_) words_used_ = word + 1;
  }
  constexpr void erase(int rank) noexcept { words_[word_of(rank)] &= ~bit_of(rank); }
  constexpr bool contains(int rank) const noexcept {
    return (words_[word_of(rank)] & bit_of(rank)) != 0;
  }
  constexpr void clear() noexcept {
    for (std::size_t i = 0; i < words_used_; ++i) words_[i] = 0;
    words_used_ = 0;
  }
  constexpr void insert_all(const RankSet& other) noexcept {
    for (std::size_t i = 0; i < other.words_used_; ++i) words_[i] |= other.words_[i];
    if (other.words_used_ > words_used_) words_used_ = other.words_used_;
  }

  constexpr bool empty() const noexcept {
    for (std::size_t i = 0; i < words_used_; ++i) {
      if (words_[i] != 0) return false;
    }
    return true;
  }
  constexpr int count() const noexcept {
    int total = 0;
    for (std::size_t i = 0; i < words_used_; ++i) total += std::popcount(words_[i]);
    return total;
  }

  /// Calls `visit(rank)` for each member, lowest first. `visit` must not change this set.
  template <class Visit>
  constexpr void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < words_used_; ++i) {
      for (std::uint64_t left = words_[i]; left != 0; left &= left - 1) {
        visit(static_cast<int>(i * 64) + std::countr_zero(left));
      }
    }
  }

  /// The words in use, for those who mask whole words: word i holds ranks 64*i to 64*i+63.
  constexpr std::size_t words_used() const noexcept { return words_used_; }
  constexpr std::uint64_t word(std::size_t index) const noexcept { return words_[index]; }

  friend constexpr bool operator==(const RankSet& a, const RankSet& b) noexcept {
    return a.words_ == b.words_;
  }

  static constexpr std::size_t word_of(int rank) noexcept {
    RC_DCHECK(rank >= 0 && rank < kMaxRanks);
    return static_cast<std::size_t>(rank) / 64;
  }
  static constexpr std::uint64_t bit_of(int rank) noexcept {
    return std::uint64_t{1} << (static_cast<unsigned>(rank) % 64);
  }

 private:
  std::array<std::uint64_t, kRankWords> words_{};
  std::size_t words_used_ = 0;
};

}  // namespace rankcast::base
