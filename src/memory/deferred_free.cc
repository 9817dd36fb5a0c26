#include "memory/deferred_free.h"

#include <algorithm>

#include "base/check.h"

namespace rankcast::memory {

void DeferredFrees::add(int rank, const Block& block, std::uint64_t last_published_run) {
  RC_CHECK(waiting_.empty() || waiting_.back().run <= last_published_run);
  waiting_.push_back({.rank = rank, .run = last_published_run, .block = block});
  bytes_ += block.bytes;
}

std::vector<DeferredFree> DeferredFrees::take_ready(std::uint64_t unretired_run) {
  const auto end = std::partition_point(
      waiting_.begin(), waiting_.end(),
      [unretired_run](const DeferredFree& entry) { return entry.run < unretired_run; });
  std::vector<DeferredFree> ready(waiting_.begin(), end);
  waiting_.erase(waiting_.begin(), end);
  for (const DeferredFree& entry : ready) bytes_ -= entry.block.bytes;
  return ready;
}

std::optional<std::uint64_t> DeferredFrees::oldest_run() const noexcept {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().run;
}

}  // namespace rankcast::memory
