// What takes part in a contest on one link: a mesh, perhaps one without spare buffers, and the two
// ways of a reference.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/lib/dispatch.h"
#include "bench/lib/kernel_library.h"
#include "bench/lib/product.h"
#include "bench/lib/reference.h"
#include "bench/lib/reference_side.h"

namespace rankcast::bench {

/// The mesh options of a contest on `link`.
MeshOptions mesh_options(const DispatchOptions& options, const std::string& link);

/// Opens and owns them all, and what they have measured. One thread.
class LinkSides {
 public:
  /// `mesh` is open on `link`. `job`, which has as many ranks, must outlive this. Throws
  /// `Error(invalid_argument)` for fewer live buffers than the job's own, and what Mesh, Product,
  /// KernelLibrary and Reference throw.
  LinkSides(const Job& job, Mesh mesh, std::string link, const DispatchOptions& options);

  /// One side with what it has measured.
  struct Contestant {
    std::string name;
    Side* side;          // borrowed from these sides, outlived because they are one contest's
    SideResult* result;  // the same
    LinkResult* totals;  // the same
    Product* mesh;       // the side if it is a mesh
    std::uint64_t rounds = 0;
  };

  Contestant repacked();
  Contestant mesh();
  std::optional<Contestant> minimum();
  Contestant reused();

  /// Picks the reference's better form; see bench::calibrate.
  void calibrate(const std::function<void()>& idle, const std::function<void()>& checkpoint,
                 std::chrono::nanoseconds budget);

  const LinkResult& result() const { return result_; }
  /// After the last round: adds counters and ratios.
  LinkResult finish();

 private:
  /// Of the kind of the mesh's.
  std::unique_ptr<ReferenceRanks> reference_ranks(const Job& job, const std::string& command) const;
  Contestant contestant(const char* name, Side& side, SideResult& result, Product* mesh);

  // Tear-down, in this order (the reverse of the members): the mesh without spares; the mesh; the
  // reference and its rounds; the kernels.
  LinkResult result_;
  LinkResult::Minimum minimum_result_;
  std::string prefix_;  // of the sides' names
  std::optional<KernelLibrary> kernels_;
  std::unique_ptr<Rounds> reference_rounds_;
  std::unique_ptr<Reference> reference_;
  std::unique_ptr<ReferenceSide> repacked_;
  std::unique_ptr<ReferenceSide> reused_;
  std::unique_ptr<Product> product_;
  std::unique_ptr<Product> minimum_;
};

}  // namespace rankcast::bench
