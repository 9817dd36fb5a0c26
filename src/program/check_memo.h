// Calls that a kernel's check has passed, by kernel, layouts and tags: one without scalars need not
// be checked again, and equal ones are prepared once.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace rankcast::program {

/// One thread at a time. A hit costs a comparison of the call's signature with that of the call
/// found last.
class CheckMemo {
 public:
  /// More are forgotten, all at once.
  static constexpr std::size_t kMax = 1024;

  /// What a check can see of a call, its scalars left out. `signature`: one word a tensor,
  /// (layout id << 3) | tag.
  struct Call {
    std::uint32_t kernel = 0;
    std::span<const std::uint32_t> signature;
  };

  /// The call's prepare id, 0 if it has not passed yet.
  std::uint64_t find(const Call& call) noexcept {
    if (last_ < entries_.size() && entries_[last_].matches(call)) [[likely]] {
      return entries_[last_].prepare_id;
    }
    return find_slowly(call);
  }

  void add(const Call& call, std::uint64_t prepare_id);

  /// When layout ids have lost their meaning.
  void clear() noexcept;

 private:
  struct Entry {
    std::uint32_t kernel = 0;
    std::vector<std::uint32_t> signature;
    std::uint64_t prepare_id = 0;

    bool matches(const Call& call) const noexcept;
  };

  static std::uint64_t hash(const Call& call) noexcept;
  std::uint64_t find_slowly(const Call& call) noexcept;

  std::vector<Entry> entries_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
  std::size_t last_ = 0;
};

}  // namespace rankcast::program
