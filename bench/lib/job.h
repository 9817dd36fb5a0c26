// What a dispatch benchmark runs: the tensors of each rank, the kernel over them, and the rounds
// that keep the measurement honest (PROTOCOL P15).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rankcast/dtype.h"
#include "rankcast/mesh.h"
#include "rankcast/program.h"
#include "rankcast/shape.h"
#include "rankcast/tensor.h"

namespace rankcast::bench {

/// One tensor argument of the task that each rank runs. The same on every rank but for its bytes.
struct JobTensor {
  std::string name;
  DType dtype;
  Shape shape;  ///< Of one rank's tensor.
  Tag tag;      ///< `in` or `out`.

  std::uint64_t size_bytes() const { return shape.size_bytes(dtype); }
};

/// A result that is not what it has to be.
struct Mismatch {
  int rank = 0;
  std::string tensor;
  std::int64_t element = 0;
  std::string found;
  std::string expected;
};

/// The rounds of one side (a mesh, or the reference) of a job: what changes before each, and what
/// must come out. Each side has its own. One thread.
class Rounds {
 public:
  /// Bytes to write before a round: rank 0's tensor, then rank 1's, and so on, without gaps. The
  /// spans are valid until the next call of `next`.
  struct Preparation {
    std::size_t changed_tensor;
    std::span<const std::byte> changed;
    std::size_t output_tensor;
    std::span<const std::byte> poison;  ///< In no element what this round gives.
  };

  virtual ~Rounds() = default;

  /// Goes on to the next round: one element of one input changes on each rank.
  virtual Preparation next() = 0;

  /// Compares every element of every rank in `checked` with what the round that `next` began has to
  /// give. `outputs` is laid out as a preparation's bytes. The first mismatch, or nothing.
  virtual std::optional<Mismatch> check(std::span<const std::byte> outputs,
                                        std::span<const int> checked) const = 0;
};

/// A job. Immutable; any thread may read.
class Job {
 public:
  virtual ~Job() = default;

  /// One word for people: "sum", "checksum".
  virtual const char* name() const = 0;
  /// The built-in kernel that each rank's one task runs.
  virtual const char* kernel() const = 0;
  virtual int ranks() const = 0;
  /// In the order of the task's arguments: one or more inputs, then one output.
  virtual std::span<const JobTensor> tensors() const = 0;
  /// The bytes that `tensor` has on `rank` before the first round; valid while the job lives.
  virtual std::span<const std::byte> initial(std::size_t tensor, int rank) const = 0;
  /// Puts the tensors in `order` (a permutation of their indices, or a part of one) on all ranks of
  /// `mesh` and returns them in that order. Throws what Mesh's allocations throw.
  virtual std::vector<StackedDeviceTensor> place(Mesh& mesh,
                                                 std::span<const std::size_t> order) const = 0;
  /// From the initial state. The job must outlive them.
  virtual std::unique_ptr<Rounds> rounds() const = 0;
};

/// The job "DP8-N": `rankcast.sum` of N-1 resident inputs into one output, 16 floats each. All
/// values are small whole numbers, so that a sum is exact in any order.
///
/// Throws `Error(invalid_argument)` for fewer than 1 rank or 2 tensors.
std::unique_ptr<Job> make_sum_job(int ranks, int tensor_args);

/// `rankcast.checksum` over every tensor of a safetensors file, one replica a rank, and over one
/// small tensor that changes from round to round; the output has one checksum a tensor.
///
/// Throws what SafetensorsFile::open throws, and `Error(invalid_argument)` for a file without
/// tensors.
std::unique_ptr<Job> make_checksum_job(int ranks, const std::string& path);

}  // namespace rankcast::bench
