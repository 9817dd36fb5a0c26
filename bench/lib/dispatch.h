// The benchmark of one dispatch: a mesh against the bare loop, side by side, on one link or
// several.
//
// All sides take turns in blocks. Each round of each is prepared (every output overwritten, an
// element of an input changed on each rank), idles if asked to, is timed from the call of submit to
// the end of the wait, and has every output of every rank checked. Only the submit and the wait are
// timed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/lib/dispatch_options.h"
#include "bench/lib/product.h"
#include "bench/lib/reference_side.h"
#include "bench/lib/statistics.h"

namespace rankcast::bench {

/// Rounds that a side runs before it is the other's turn.
inline constexpr int kBlockRounds = 20;

/// What one side's timed rounds took.
struct SideResult {
  BlockSeries submit_us;
  BlockSeries wait_us;
  BlockSeries total_us;
  BlockSeries entry_spread_us;
  std::vector<std::vector<double>> entry_us;  ///< By rank.
};

/// A side's first wrong round.
struct WrongResult {
  std::string side;  ///< "mesh", "reference, repacked"; with several links "link process: mesh".
  std::uint64_t round = 0;
  Mismatch mismatch;
};

/// A mesh against the reference that the mode calls for.
struct Ratios {
  double submit = 0;
  double total = 0;
  double entry_spread = 0;
};

/// What took part on one link, and what came out.
struct LinkResult {
  std::string link;
  /// Whether every result of every round was right, warm-up included; nothing when no rank of the
  /// mesh runs kernels.
  std::optional<bool> verified;
  std::uint64_t dispatches = 0;  ///< Programs that its meshes ran, warm-up included.

  SideResult product;
  SideResult repacked;
  SideResult reused;
  SubmitCounters counters;  ///< Timed rounds alone.
  std::uint64_t live_buffers = 0;
  std::string reference_ranks = "thread";  ///< What the reference's are: of the mesh's kind.
  bool reference_runs_kernel = true;
  std::vector<CalibrationResult> calibration;
  ReferenceChoice choice;
  Ratios ratio;

  /// The mesh with the job's own buffers alone, if there was one.
  struct Minimum {
    SideResult product;
    SubmitCounters counters;
    std::uint64_t live_buffers = 0;
    double submit_ratio = 0;  ///< `LinkResult::product` against it.
  };
  std::optional<Minimum> minimum;
};

/// The mesh of link "process" against the one of link "thread".
struct LinkRatios {
  double submit = 0;
  double total = 0;
};

struct DispatchResult {
  DispatchOptions options;
  std::string job;
  int ranks = 0;
  int tensor_args = 0;
  std::optional<bool> verified;      ///< All links together.
  std::optional<WrongResult> wrong;  ///< The first one.
  std::uint64_t wrong_rounds = 0;
  std::uint64_t dispatches = 0;  ///< The same.

  std::vector<LinkResult> links;  ///< In the order of the option; one or more.
  std::optional<LinkRatios> process_over_thread;
};

/// Called before every round, between 0 and 1. What it throws ends the run and passes through.
using Progress = std::function<void(double done)>;

/// Runs the benchmark. Opens and closes all it needs. A wrong result is in the answer, not thrown.
/// Throws what check_options, Mesh, SafetensorsFile and Reference throw.
DispatchResult run_dispatch(const DispatchOptions& options, const Progress& progress = {});

}  // namespace rankcast::bench
