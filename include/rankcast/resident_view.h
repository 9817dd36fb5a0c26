// A tensor's memory as the host reads it in place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "rankcast/api.h"
#include "rankcast/dtype.h"
#include "rankcast/shape.h"
#include "rankcast/tensor.h"

namespace rankcast {

namespace detail {
class MeshCore;
struct ViewPin;
}  // namespace detail

/// The memory of a tensor, without a copy: made by `Mesh::view`, which waits for the work that was
/// submitted before to the tensor's rank. What is submitted later may write it while it is read;
/// the reader sees to the order, by waiting for such runs.
///
/// Pins the memory. `Mesh::free` makes handles stale at once, as ever; the bytes stay and belong to
/// nobody else until the last view of the buffer is gone, also when the mesh is closed, and when
/// the rank is lost or restarted: the view then shows what the rank had written by then. While a
/// view lives, a closed mesh keeps all of its tensors' memory mapped.
///
/// Move-only; any number of threads may read one. A view may outlive its `Mesh`. In a forked child
/// its memory may be read where the parent's could, and the destructor does nothing.
class RANKCAST_API ResidentView {
 public:
  /// Shows nothing: `data` is null.
  ResidentView() noexcept;
  ~ResidentView();
  ResidentView(ResidentView&& other) noexcept;
  ResidentView& operator=(ResidentView&& other) noexcept;
  ResidentView(const ResidentView&) = delete;
  ResidentView& operator=(const ResidentView&) = delete;

  bool empty() const noexcept { return data_ == nullptr; }
  /// The tensor's first element; null when empty.
  const void* data() const noexcept { return data_; }
  DType dtype() const noexcept { return layout_.dtype; }
  /// Throws `Error(invalid_argument)` when empty.
  Shape shape() const;
  /// In elements, one a dimension; of a view of a tensor not those of dense memory.
  std::span<const std::int64_t> strides() const noexcept {
    return {layout_.strides.data(), layout_.dims};
  }
  /// The rank whose memory it is; -1 when empty.
  int rank() const noexcept { return rank_; }

 private:
  friend class detail::MeshCore;
  ResidentView(const void* data, const detail::Layout& layout, int rank,
               std::unique_ptr<detail::ViewPin> pin) noexcept;

  const void* data_ = nullptr;  // of memory that pin_ keeps
  detail::Layout layout_;
  int rank_ = -1;
  std::unique_ptr<detail::ViewPin> pin_;
};

}  // namespace rankcast
