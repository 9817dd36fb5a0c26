// Prepared kernels: what `prepare` made, kept by kernel, shapes, dtypes and strides.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/segment.h"
#include "base/status.h"
#include "frame/records.h"
#include "rankcast/kernel_abi.h"

namespace rankcast::rank {

/// What a launch needs of its preparation.
struct Preparation {
  void* state = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t shared_bytes = 0;  // of a group's member
};

/// Used by the rank's thread alone. Releases every state when it is destroyed, before the libraries
/// are closed.
class PreparedKernels {
 public:
  /// Preparations kept; the one unused for longest goes first.
  static constexpr std::size_t kMax = 1024;

  PreparedKernels() = default;
  ~PreparedKernels();
  PreparedKernels(const PreparedKernels&) = delete;
  PreparedKernels& operator=(const PreparedKernels&) = delete;

  /// The preparation of this call, made if it has not been met. `layouts` are those of the call's
  /// tensors in order; a `prepare_id` that comes back with other ones is prepared anew. Fails with
  /// `task_failed` and the kernel's text, or `out_of_memory` for the workspace.
  base::Result<Preparation> get(std::uint64_t prepare_id, const rankcast_kernel& kernel,
                                const rankcast_kernel_context& context, const rankcast_call& call,
                                std::span<const frame::LayoutRecord> layouts,
                                std::int32_t* failed_argument);

  /// Whether a group's member has its preparation, made with this block of shared memory.
  bool has_group(std::uint64_t prepare_id, const frame::BlockRef& shared) const noexcept;
  void forget_group(std::uint64_t prepare_id) noexcept;
  /// The same as get, of a group's member: that which there is, or, `anew`, one that takes its
  /// place.
  base::Result<Preparation> get_group(const frame::GroupRecord& group, bool anew,
                                      const rankcast_kernel& kernel,
                                      const rankcast_kernel_context& context,
                                      const rankcast_call& call, std::int32_t* failed_argument);

 private:
  struct Entry {
    const rankcast_kernel* kernel = nullptr;
    std::vector<frame::LayoutRecord> layouts;
    void* state = nullptr;
    std::uint64_t workspace_bytes = 0;
    std::uint64_t last_use = 0;
    frame::BlockRef shared = {};  // of a group's member
    std::uint64_t shared_bytes = 0;
  };

  base::Result<Entry*> make(std::uint64_t prepare_id, const rankcast_kernel& kernel,
                            const rankcast_kernel_context& context, const rankcast_call& call,
                            std::int32_t* failed_argument);
  Preparation use(Entry& entry) noexcept;
  static void release(Entry& entry) noexcept;
  void evict_one();
  base::Status grow_workspace(std::uint64_t bytes);

  std::unordered_map<std::uint64_t, Entry> entries_;
  base::Segment workspace_;  // one block serves all: a rank runs one kernel at a time
  std::uint64_t uses_ = 0;
};

}  // namespace rankcast::rank
