// Frames in a rank's own memory, with their arguments resolved; the last few are kept, since a
// program that repeats sends the same bytes again.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/scratch.h"
#include "base/status.h"
#include "device/device.h"
#include "frame/decode.h"
#include "frame/records.h"
#include "link/rank_port.h"
#include "rank/buffers.h"

namespace rankcast::rank {

/// A frame, checked, and one entry an argument, a layout, a scalar. Good until the next take.
struct ResolvedFrame {
  const frame::Frame& frame() const noexcept { return decoder.frame(); }

  frame::FrameDecoder decoder;
  base::Scratch<DLTensor> tensors;
  base::Scratch<std::uint8_t> tags;
  base::Scratch<rankcast_scalar> scalars;

  /// What all arguments of one layout have in common.
  struct LayoutView {
    DLTensor tensor;  // without data
    std::uint64_t extent_bytes = 0;
    std::uint64_t alignment_mask = 0;  // of offsets
  };

  // Of Frames alone.
  base::Scratch<std::uint32_t> temporaries;  // arguments that name them
  frame::HeapBlock heap;                     // of this rank, that they point into
  base::Scratch<LayoutView> layout_views;
  std::uint64_t last_use = 0;  // number of the frame taken then
  bool resolved = false;       // all of this is of the decoder's frame and the table as it is
};

/// Used by the rank's thread alone. Allocates only to grow.
class Frames {
 public:
  /// `host_addresses`: the rank is a part of the host's process. All are borrowed from the executor
  /// or outlive it.
  Frames(link::RankPort& port, Buffers& buffers, bool host_addresses) noexcept
      : port_(port), buffers_(buffers), host_addresses_(host_addresses) {}

  /// The frame of a record at `source`, in memory that others may write: copied, checked, resolved;
  /// or as it was kept, when source has its very bytes and no buffer of it has changed. Temporaries
  /// are in the heap blocks that `reports`, one a rank, name. Fails with `internal`, saying what is
  /// damaged.
  base::Result<ResolvedFrame*> take(const frame::Record& record, const std::byte* source,
                                    const frame::LaneReport* reports, device::Device& device);

  /// Buffers have changed that the frames of these bits use (Buffers::apply).
  void forget(std::uint32_t users) noexcept;

 private:
  using LayoutView = ResolvedFrame::LayoutView;

  /// A step of a program and the transfers around it.
  static constexpr std::size_t kKept = 4;

  ResolvedFrame* find_kept(const std::byte* source, std::uint32_t bytes) noexcept;
  base::Status resolve(ResolvedFrame& resolved, DLDevice device);
  base::Status place_temporaries(ResolvedFrame& resolved, const frame::LaneReport* reports,
                                 device::Device& device);
  base::Result<std::byte*> find_heap(const frame::HeapBlock& block, bool own,
                                     device::Device& device);
  std::byte* resolve_elsewhere(const frame::ArgumentRecord& argument, const LayoutView& view);
  [[gnu::cold]] base::Status resolve_failure(const frame::Frame& frame, std::size_t index) const;

  link::RankPort& port_;
  Buffers& buffers_;
  const bool host_addresses_;
  std::array<ResolvedFrame, kKept> kept_;
  std::uint64_t taken_ = 0;
};

}  // namespace rankcast::rank
