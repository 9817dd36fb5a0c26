// Handles of tensors that live on ranks.
//
// A handle is a value: it names a buffer by (mesh incarnation, rank, slot, generation) and carries
// the descriptor of the tensor. It owns nothing: destroying it frees nothing, and after
// `Mesh::free` every copy is stale, which each use reports as `stale_tensor`. No handle can reach
// memory that was freed or that belongs to another mesh. Any number of threads may read one handle
// at once.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "rankcast/api.h"
#include "rankcast/dtype.h"
#include "rankcast/shape.h"

namespace rankcast {

/// Names one allocation, for ever: no two buffers of any mesh of this process have equal ids.
///
/// - `mesh`: incarnation of the mesh, never used again; 0: no buffer.
/// - `rank`: where the memory is; at most 1,024 ranks a mesh.
/// - `slot`: row of that rank's buffer table; at most 16,777,216 live buffers a rank.
/// - `generation`: odd, grows by 2 each time the slot is freed; after 2^31 uses the slot is
/// retired.
struct BufferId {
  std::uint64_t mesh = 0;
  std::int32_t rank = -1;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;

  friend bool operator==(const BufferId&, const BufferId&) = default;
};

namespace detail {

/// dtype, shape and strides of a tensor, as they cross a link. Plain data; unused extents and
/// strides are 0.
struct Layout {
  DType dtype = DType::f32;
  std::uint8_t dims = 0;
  std::array<std::uint8_t, 6> reserved{};
  std::uint64_t extent_bytes = 0;  // from the first byte to the byte after the last
  std::array<std::int64_t, kMaxDims> shape{};
  std::array<std::int64_t, kMaxDims> strides{};  // in elements, positive

  /// Unused extents and strides are 0 on both sides, so only those in use are compared.
  friend bool operator==(const Layout& a, const Layout& b) noexcept {
    if (a.dtype != b.dtype || a.dims != b.dims || a.extent_bytes != b.extent_bytes) return false;
    for (std::size_t i = 0; i < a.dims; ++i) {
      if (a.shape[i] != b.shape[i] || a.strides[i] != b.strides[i]) return false;
    }
    return true;
  }
};
static_assert(sizeof(Layout) == 144);

/// One shard of a stacked device tensor, or the buffer of a device tensor.
struct Shard {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::int32_t rank = -1;
  std::uint16_t of_stack = 0;  // 1: a shard of a stack, freed with it alone
  std::uint16_t is_view = 0;   // 1: made by slice, transpose or strided; frees nothing
};

struct StackedData;
struct TensorAccess;

}  // namespace detail

/// An immutable typed view of one buffer on one rank.
class RANKCAST_API DeviceTensor {
 public:
  /// Empty: names no buffer; using it is `invalid_argument`.
  DeviceTensor() = default;

  bool empty() const noexcept { return mesh_ == 0; }
  /// The rank whose memory holds it; -1 when empty.
  int rank() const noexcept { return shard_.rank; }
  DType dtype() const noexcept { return layout_.dtype; }
  /// Throws `Error(invalid_argument)` when empty.
  Shape shape() const;
  int dims() const noexcept { return layout_.dims; }
  /// In elements, one a dimension.
  std::span<const std::int64_t> strides() const noexcept {
    return {layout_.strides.data(), layout_.dims};
  }
  /// Bytes of its elements, gaps not counted.
  std::uint64_t size_bytes() const noexcept;
  BufferId buffer() const noexcept { return {mesh_, shard_.rank, shard_.slot, shard_.generation}; }

  // Views: other tensors over the same memory, of views as well. They copy nothing, become stale
  // with the tensor, and cannot be freed: `Mesh::free` wants the tensor that `Mesh::alloc` gave.
  // All throw `Error(invalid_argument)` with the numbers; nothing here looks at the buffer.

  /// Elements `begin`, `begin + step`, ... below `end` of dimension `dim`, all of the others.
  /// 0 <= begin < end <= the extent; the number of dimensions stays.
  DeviceTensor slice(int dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;
  /// Dimensions `a` and `b` change places.
  DeviceTensor transpose(int a, int b) const;
  /// Element [i, j, ...] is the one `offset + i * strides[0] + j * strides[1] + ...` elements
  /// behind this tensor's first. Strides are positive; all must lie between this tensor's first
  /// and last byte, gaps included. Elements may share bytes; what an upload leaves there is one of
  /// their values.
  DeviceTensor strided(const Shape& shape, std::span<const std::int64_t> strides,
                       std::int64_t offset = 0) const;
  DeviceTensor strided(const Shape& shape, std::initializer_list<std::int64_t> strides,
                       std::int64_t offset = 0) const {
    return strided(shape, std::span<const std::int64_t>(strides.begin(), strides.size()), offset);
  }

 private:
  friend struct detail::TensorAccess;

  std::uint64_t mesh_ = 0;
  detail::Shard shard_;
  std::uint64_t offset_bytes_ = 0;
  detail::Layout layout_;
};

/// B shards of one dtype and shape on B distinct ranks; its shape is `[B, tail...]`. Copying it is
/// cheap.
class RANKCAST_API StackedDeviceTensor {
 public:
  /// Empty: names no buffers; using it is `invalid_argument`.
  StackedDeviceTensor() = default;

  bool empty() const noexcept { return data_ == nullptr; }
  DType dtype() const;
  /// `[B, tail...]`.
  const Shape& shape() const;
  int shard_count() const noexcept;
  /// Bytes of all shards' elements.
  std::uint64_t size_bytes() const noexcept;
  /// The rank that holds shard `shard`. Throws `Error(invalid_argument)` for a shard out of range.
  int rank_of(int shard) const;
  /// Shard `shard` as a tensor of shape `tail`. Throws `Error(invalid_argument)` for a shard out of
  /// range.
  DeviceTensor operator[](int shard) const;
  /// The shard that lives on `rank`. Throws `Error(wrong_rank)` when there is none.
  DeviceTensor shard_on(int rank) const;

 private:
  friend struct detail::TensorAccess;

  std::shared_ptr<const detail::StackedData> data_;
};

namespace detail {

/// What a stacked device tensor's copies share. Immutable once built.
struct StackedData {
  std::uint64_t serial = 0;  // no other has it, not even one that takes its memory later
  Shape shape;
  std::uint64_t mesh = 0;
  Layout layout;                            // of one shard
  std::vector<Shard> shards;                // in shard order
  std::vector<std::int32_t> shard_of_rank;  // index by rank; -1: that rank holds none
};

}  // namespace detail

}  // namespace rankcast
