#include "rankcast/tensor.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "base/serial.h"
#include "rankcast/error.h"
#include "tensor/layout.h"
#include "tensor/tensor_access.h"
#include "tensor/view.h"

namespace rankcast {

namespace {

const detail::StackedData& not_empty(const std::shared_ptr<const detail::StackedData>& data) {
  if (data == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "the stacked tensor is empty: its handle names no buffers");
  }
  return *data;
}

std::size_t checked_shard(const detail::StackedData& data, int shard) {
  if (shard < 0 || static_cast<std::size_t>(shard) >= data.shards.size()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("there is no shard {}: the stacked tensor {}{} has shards 0 to {}", shard,
                    dtype_name(data.layout.dtype), data.shape.to_string(), data.shards.size() - 1));
  }
  return static_cast<std::size_t>(shard);
}

DeviceTensor shard_tensor(const detail::StackedData& data, std::size_t shard) {
  return detail::TensorAccess::make(data.mesh, data.shards[shard], 0, data.layout);
}

DeviceTensor view_tensor(const DeviceTensor& tensor, const tensor::View& view) {
  using detail::TensorAccess;
  detail::Shard shard = TensorAccess::shard(tensor);
  shard.is_view = 1;
  return TensorAccess::make(TensorAccess::mesh(tensor), shard,
                            TensorAccess::offset_bytes(tensor) + view.offset_bytes, view.layout);
}

}  // namespace

Shape DeviceTensor::shape() const { return tensor::layout_shape(layout_); }

std::uint64_t DeviceTensor::size_bytes() const noexcept {
  return tensor::layout_size_bytes(layout_);
}

DeviceTensor DeviceTensor::slice(int dim, std::int64_t begin, std::int64_t end,
                                 std::int64_t step) const {
  return view_tensor(*this, tensor::slice_of(layout_, dim, begin, end, step));
}

DeviceTensor DeviceTensor::transpose(int a, int b) const {
  return view_tensor(*this, tensor::transpose_of(layout_, a, b));
}

DeviceTensor DeviceTensor::strided(const Shape& shape, std::span<const std::int64_t> strides,
                                   std::int64_t offset) const {
  return view_tensor(*this, tensor::strided_of(layout_, shape, strides, offset));
}

DType StackedDeviceTensor::dtype() const { return not_empty(data_).layout.dtype; }

const Shape& StackedDeviceTensor::shape() const { return not_empty(data_).shape; }

int StackedDeviceTensor::shard_count() const noexcept {
  return empty() ? 0 : static_cast<int>(data_->shards.size());
}

std::uint64_t StackedDeviceTensor::size_bytes() const noexcept {
  return empty() ? 0 : tensor::layout_size_bytes(data_->layout) * data_->shards.size();
}

int StackedDeviceTensor::rank_of(int shard) const {
  const detail::StackedData& data = not_empty(data_);
  return data.shards[checked_shard(data, shard)].rank;
}

DeviceTensor StackedDeviceTensor::operator[](int shard) const {
  const detail::StackedData& data = not_empty(data_);
  return shard_tensor(data, checked_shard(data, shard));
}

DeviceTensor StackedDeviceTensor::shard_on(int rank) const {
  const detail::StackedData& data = not_empty(data_);
  if (rank < 0 || static_cast<std::size_t>(rank) >= data.shard_of_rank.size() ||
      data.shard_of_rank[static_cast<std::size_t>(rank)] < 0) {
    throw Error(ErrorCode::wrong_rank,
                fmt::format("the stacked tensor {}{} has no shard on rank {}",
                            dtype_name(data.layout.dtype), data.shape.to_string(), rank),
                {.rank = rank});
  }
  return shard_tensor(data,
                      static_cast<std::size_t>(data.shard_of_rank[static_cast<std::size_t>(rank)]));
}

namespace detail {

StackedDeviceTensor TensorAccess::make_stacked(std::uint64_t mesh, const Layout& shard_layout,
                                               std::vector<Shard> shards, int world_size) {
  const Shape shape =
      tensor::layout_shape(shard_layout).prepended(static_cast<std::int64_t>(shards.size()));
  shape.size_bytes(shard_layout.dtype);  // throws when the bytes of all shards overflow
  std::vector<std::int32_t> shard_of_rank(static_cast<std::size_t>(world_size), -1);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const int rank = shards[i].rank;
    RC_CHECK(rank >= 0 && rank < world_size);
    std::int32_t& held = shard_of_rank[static_cast<std::size_t>(rank)];
    RC_CHECK(held < 0);
    held = static_cast<std::int32_t>(i);
  }
  StackedDeviceTensor tensor;
  tensor.data_ =
      std::make_shared<const StackedData>(StackedData{.serial = base::next_serial(),
                                                      .shape = shape,
                                                      .mesh = mesh,
                                                      .layout = shard_layout,
                                                      .shards = std::move(shards),
                                                      .shard_of_rank = std::move(shard_of_rank)});
  return tensor;
}

}  // namespace detail

}  // namespace rankcast
