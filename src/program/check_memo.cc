#include "program/check_memo.h"

#include <cstring>

namespace rankcast::program {

bool CheckMemo::Entry::matches(const Call& call) const noexcept {
  if (kernel != call.kernel || signature.size() != call.signature.size() ||
      scalars.size() != 2 * call.scalars.size()) {
    return false;
  }
  if (!signature.empty() &&
      std::memcmp(signature.data(), call.signature.data(), call.signature.size_bytes()) != 0) {
    return false;
  }
  for (std::size_t i = 0; i < call.scalars.size(); ++i) {
    if (scalars[2 * i] != call.scalars[i].type || scalars[2 * i + 1] != call.scalars[i].bits)
      return false;
  }
  return true;
}

std::uint64_t CheckMemo::hash(const Call& call) noexcept {
  constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
  std::uint64_t hash = call.kernel;
  const auto mix = [&hash](std::uint64_t word) { hash = (hash ^ word) * kMultiplier; };
  for (const std::uint32_t word : call.signature) mix(word);
  for (const frame::ScalarRecord& scalar : call.scalars) mix(scalar.bits ^ scalar.type);
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
  Entry entry{call.kernel, {call.signature.begin(), call.signature.end()}, {}, prepare_id};
  for (const frame::ScalarRecord& scalar : call.scalars) {
    entry.scalars.push_back(scalar.type);
    entry.scalars.push_back(scalar.bits);
  }
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
