#include "program/check_memo.h"

#include <cstring>

namespace rankcast::program {

bool CheckMemo::Entry::matches(const Call& call) const noexcept {
  return kernel == call.kernel && signature.size() == call.signature.size() &&
         (signature.empty() ||
          std::memcmp(signature.data(), call.signature.data(), call.signature.size_bytes()) == 0);
}

std::uint64_t CheckMemo::hash(const Call& call) noexcept {
  constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
  std::uint64_t hash = call.kernel;
  const auto mix = [&hash](std::uint64_t word) { hash = (hash ^ word) * kMultiplier; };
  for (const std::uint32_t word : call.signature) mix(word);
  return hash ^ (hash >> 32);
}

std::uint64_t CheckMemo::find_slowly(const Call& call) noexcept {
  const auto [first, last] = by_hash_.equal_range(hash(call));
  for (auto it = first; it != last; ++it) {
    if (entries_[it->second].matches(call)) {
      last_ = it->second;
      return entries_[last_].prepare_id;
    }
  }
  return 0;
}

void CheckMemo::add(const Call& call, std::uint64_t prepare_id) {
  if (entries_.size() == kMax) clear();
  Entry entry{call.kernel, {call.signature.begin(), call.signature.end()}, prepare_id};
  by_hash_.emplace(hash(call), entries_.size());
  last_ = entries_.size();
  entries_.push_back(std::move(entry));
}

void CheckMemo::clear() noexcept {
  entries_.clear();
  by_hash_.clear();
  last_ = 0;
}

}  // namespace rankcast::program
