#include "mesh/store_chooser.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace rankcast::mesh {

base::Result<StoreChooser> StoreChooser::from_environment() {
  const char* value = std::getenv("RANKCAST_STORES");
  const std::string_view name = value == nullptr || *value == '\0' ? "measured" : value;
  if (name == "measured") return StoreChooser();
  for (const base::StoreKind kind : {base::StoreKind::ordinary, base::StoreKind::streaming}) {
    if (name == base::store_kind_name(kind)) return StoreChooser(kind);
  }
  return base::unexpected_failure(ErrorCode::invalid_argument,
                                  "the environment variable RANKCAST_STORES is \"{}\"; it may be "
                                  "measured, ordinary or streaming",
                                  name);
}

void StoreChooser::add(base::StoreKind kind, std::uint64_t frame_bytes,
                       std::int64_t total_ns) noexcept {
  if (frame_bytes < kMinBytes) return;
  if (!in_trial()) {
    if (++runs_ >= kRunsBetweenTrials) {
      runs_ = 0;
      counts_ = {};
    }
    return;
  }
  const auto index = static_cast<std::size_t>(kind);
  if (counts_[index] < kSamples) samples_[index][counts_[index]++] = total_ns;
  ++runs_;
  if (!in_trial() && counts_[0] != 0 && counts_[1] != 0) {
    chosen_ = median(base::StoreKind::streaming) < median(base::StoreKind::ordinary)
                  ? base::StoreKind::streaming
                  : base::StoreKind::ordinary;
  }
}

std::int64_t StoreChooser::median(base::StoreKind kind) noexcept {
  const auto index = static_cast<std::size_t>(kind);
  const auto first = samples_[index].begin();
  const auto middle = first + static_cast<std::ptrdiff_t>(counts_[index] / 2);
  std::nth_element(first, middle, first + static_cast<std::ptrdiff_t>(counts_[index]));
  return *middle;
}

}  // namespace rankcast::mesh
