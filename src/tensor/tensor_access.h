// The one door to the private parts of tensor handles: the mesh builds handles here and takes them
// apart.
//
// Handles are values; any number of threads may read one. Nothing here checks whether a buffer is
// live: the mesh does.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "rankcast/tensor.h"

namespace rankcast::detail {

struct TensorAccess {
  /// A handle of `layout`'s elements in the buffer `shard` of mesh incarnation `mesh` (not 0), from
  /// `offset_bytes` on.
  static DeviceTensor make(std::uint64_t mesh, const Shard& shard, std::uint64_t offset_bytes,
                           const Layout& layout) noexcept {
    DeviceTensor tensor;
    tensor.mesh_ = mesh;
    tensor.shard_ = shard;
    tensor.offset_bytes_ = offset_bytes;
    tensor.layout_ = layout;
    return tensor;
  }

  /// 0 for an empty handle.
  static std::uint64_t mesh(const DeviceTensor& tensor) noexcept { return tensor.mesh_; }
  static const Shard& shard(const DeviceTensor& tensor) noexcept { return tensor.shard_; }
  static std::uint64_t offset_bytes(const DeviceTensor& tensor) noexcept {
    return tensor.offset_bytes_;
  }
  static const Layout& layout(const DeviceTensor& tensor) noexcept { return tensor.layout_; }

  /// A stack of `shards` (at least one, in shard order, on distinct ranks below `world_size`), each
  /// of `shard_layout` from the start of its buffer. Throws `Error(invalid_argument)` when
  /// `[shards, tail...]` is no valid shape.
  static StackedDeviceTensor make_stacked(std::uint64_t mesh, const Layout& shard_layout,
                                          std::vector<Shard> shards, int world_size);

  /// Null for an empty handle; else lives as long as a copy of the handle does.
  static const StackedData* data(const StackedDeviceTensor& tensor) noexcept {
    return tensor.data_.get();
  }
  /// The same, owned: for what must outlive the caller's handle.
  static std::shared_ptr<const StackedData> shared_data(
      const StackedDeviceTensor& tensor) noexcept {
    return tensor.data_;
  }
};

}  // namespace rankcast::detail
