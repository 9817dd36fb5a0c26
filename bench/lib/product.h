// A mesh as a side of a comparison.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/lib/job.h"
#include "bench/lib/side.h"
#include "rankcast/mesh.h"
#include "rankcast/program.h"

namespace rankcast::bench {

/// A function that the mesh runs instead of the job's kernel, under this name.
using KernelOverride = std::pair<std::string, KernelFunction>;

/// What happens on a mesh between two rounds, untimed.
enum class Between : std::uint8_t {
  nothing,  ///< The next submit repeats the last one.
  free,     ///< A buffer is allocated and freed on every rank: no handle may be taken for live.
  rotate,   ///< Every input takes the next one's place: no argument but the output is the same.
};

struct ProductOptions {
  /// Buffers alive on the mesh, the job's among them; the job's own number if smaller.
  std::uint64_t live_buffers = 0;
  /// How long one round may take.
  std::chrono::nanoseconds limit = std::chrono::minutes(1);
  /// Thread link only.
  std::optional<KernelOverride> kernel;
  /// `rotate` is for jobs whose inputs are alike and whose result is theirs in any order.
  Between between = Between::nothing;
};

/// What submits did to the mesh's counters and to the heap, all timed rounds together.
struct SubmitCounters {
  std::uint64_t submits = 0;
  std::uint64_t descriptors_built = 0;
  std::uint64_t allocations = 0;  ///< Calls of operator new in the submitting thread.
  std::uint64_t table_visits = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t wakes = 0;
};

/// A mesh with the job's tensors resident, submitting the job's program: one task a rank. The
/// arguments are built once. One thread calls.
class Product final : public Side {
 public:
  /// Places the job's tensors on `mesh`, which has as many ranks as the job, in shuffled order and
  /// scattered among buffers that nobody uses, up to `live_buffers`. `job` must outlive this.
  /// Throws what Mesh throws.
  Product(const Job& job, Mesh mesh, const ProductOptions& options);

  void prepare() override;
  const RoundTimes& run_round() override;
  std::optional<Mismatch> verify() override;

  Mesh& mesh() { return mesh_; }
  /// Ranks whose outputs can be checked: those that run kernels.
  const std::vector<int>& checked_ranks() const { return checked_; }
  std::uint64_t live_buffers() const { return live_buffers_; }

  /// Whether rounds from here on go into the counters; at first they do not.
  void count_submits(bool counting) { counting_ = counting; }
  const SubmitCounters& counters() const { return counters_; }

 private:
  Program program() const;
  void place_tensors(std::uint64_t live_buffers);
  void change_something();
  void count(const MeshStats& before, const MeshStats& after, std::uint64_t allocations);

  const Job& job_;  // borrowed, outlived as the constructor says
  ProductOptions options_;
  Mesh mesh_;
  Program program_;
  std::unique_ptr<Rounds> rounds_;
  std::vector<StackedDeviceTensor> tensors_;  // in the order of the task's arguments
  std::vector<Argument> arguments_;
  std::vector<int> checked_;
  std::uint64_t live_buffers_ = 0;
  std::size_t output_ = 0;
  std::vector<std::byte> outputs_;
  RoundTimes times_;
  SubmitCounters counters_;
  bool counting_ = false;
};

}  // namespace rankcast::bench
