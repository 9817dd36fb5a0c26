// Ordinary or streaming stores into frames: whichever gives the smaller total here (PROTOCOL P14).
//
// Which one wins depends on the link and on which two cores write and read, by a factor of 3 either
// way, and it changes as the scheduler moves threads. So it is measured on the runs themselves:
// both kinds take turns for a while, the smaller median stays, and is tried again later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "base/stream_store.h"

namespace rankcast::mesh {

/// Used under the mesh's mutex.
class StoreChooser {
 public:
  /// A chooser that measures, or the one kind that RANKCAST_STORES says. `invalid_argument` for
  /// another value of that variable.
  static base::Result<StoreChooser> from_environment();

  StoreChooser() noexcept = default;
  explicit StoreChooser(base::StoreKind only) noexcept : measures_(false), chosen_(only) {}

  /// Frames of fewer bytes say nothing: their stores cost too little.
  static constexpr std::uint64_t kMinBytes = 4096;
  /// Runs of each kind in a trial, taken in turns of kTurn.
  static constexpr std::size_t kSamples = 24;
  static constexpr std::size_t kTurn = 4;
  /// Runs between trials.
  static constexpr std::uint64_t kRunsBetweenTrials = 8192;

  /// The kind for the next run's frames.
  base::StoreKind next() const noexcept {
    if (!in_trial()) return chosen_;
    return turn() % 2 == 0 ? base::StoreKind::ordinary : base::StoreKind::streaming;
  }

  /// A run has finished: bytes of its frames, and nanoseconds from its submit to its last lane's
  /// end.
  void add(base::StoreKind kind, std::uint64_t frame_bytes, std::int64_t total_ns) noexcept;

  base::StoreKind chosen() const noexcept { return chosen_; }

 private:
  bool in_trial() const noexcept {
    return measures_ && base::has_streaming_stores() && runs_ < 2 * kSamples;
  }
  std::size_t turn() const noexcept { return static_cast<std::size_t>(runs_) / kTurn; }
  std::int64_t median(base::StoreKind kind) noexcept;

  std::array<std::array<std::int64_t, kSamples>, 2> samples_{};
  std::array<std::size_t, 2> counts_{};
  bool measures_ = true;
  std::uint64_t runs_ = 0;  // large enough, since the last trial began
  base::StoreKind chosen_ = base::StoreKind::ordinary;
};

}  // namespace rankcast::mesh
