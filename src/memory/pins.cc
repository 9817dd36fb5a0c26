#include "memory/pins.h"

#include "base/check.h"

namespace rankcast::memory {

void Pins::add(int rank, const Block& block) {
  Pin& pin = pinned_[Key(rank, block.node)];
  if (pin.count++ == 0) bytes_ += block.bytes;
}

bool Pins::hold_back(int rank, const Block& block) noexcept {
  const auto found = pinned_.find(Key(rank, block.node));
  if (found == pinned_.end()) return false;
  found->second.held_back = true;
  return true;
}

bool Pins::remove(int rank, const Block& block) noexcept {
  const auto found = pinned_.find(Key(rank, block.node));
  RC_CHECK(found != pinned_.end());
  if (--found->second.count != 0) return false;
  const bool held_back = found->second.held_back;
  pinned_.erase(found);
  bytes_ -= block.bytes;
  return held_back;
}

}  // namespace rankcast::memory
