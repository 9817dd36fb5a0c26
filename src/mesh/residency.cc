// Resident memory: alloc, alloc_stacked, free (PROTOCOL P1).
//
// free: makes the generation pass, bumps the epoch, notes the last published run; memory returns
// when every run up to that one has ended on all its lanes.
#include <utility>

#include "base/fault_point.h"
#include "memory/poison.h"
#include "mesh/core.h"
#include "tensor/layout.h"
#include "tensor/tensor_access.h"

namespace rankcast::detail {

using base::failure;
using base::Status;
using base::throw_error;

base::Result<base::TableKey> MeshCore::allocate_locked(int rank, std::uint64_t bytes) {
  const auto index = static_cast<std::size_t>(rank);
  if (Status status = lost_.check(base::RankSet::of(rank)); !status.ok())
    return tl::unexpected(std::move(status));
  mesh::LinkHeap& heap = *heaps_[index];
  auto block = RANKCAST_FAULT_POINT("mesh.alloc_block")
                   ? tl::unexpected(failure(ErrorCode::out_of_memory, "made to fail at the heap"))
                   : heap.allocate(bytes);
  if (!block) {
    Status status = std::move(block).error();
    status.text =
        fmt::format("rank {}: no memory for a buffer of {} bytes: {}", rank, bytes, status.text);
    return tl::unexpected(std::move(status).with_rank(rank));
  }
  auto key = RANKCAST_FAULT_POINT("mesh.alloc_slot")
                 ? tl::unexpected(failure(ErrorCode::out_of_memory, "made to fail at the table"))
                 : tables_[index]->insert(*block, bytes);
  if (!key) {
    heap.release(*block);
    Status status = std::move(key).error();
    status.text =
        fmt::format("rank {}: no room for a buffer of {} bytes: {}", rank, bytes, status.text);
    return tl::unexpected(std::move(status).with_rank(rank));
  }
  memory::unpoison(heap.address(*block), block->bytes);
  pending_changes_[index].add(
      {block->offset, bytes, key->slot, key->generation, heap.segment_id(*block), 0});
  return key;
}

base::Result<frame::BlockRef> MeshCore::place_for(const Shard& buffer, int reader) {
  const auto index = static_cast<std::size_t>(buffer.rank);
  base::MutexLock lock(mutex_);
  const memory::BufferRow* row = tables_[index]->find({buffer.slot, buffer.generation});
  if (row == nullptr) return frame::BlockRef();
  const std::uint32_t segment = heaps_[index]->segment_id(row->block);
  link_->let_read(segment, reader);
  return frame::BlockRef{row->block.offset, segment, 1};
}

base::Result<frame::BlockRef> MeshCore::group_block(std::uint64_t prepare_id, int members) {
  base::MutexLock lock(mutex_);
  return groups_->find(prepare_id, members);
}

DeviceTensor MeshCore::alloc(int rank, const Shape& shape, DType dtype) {
  check_open();
  check_rank(rank, "alloc");
  const Layout layout = tensor::contiguous_layout(dtype, shape);
  base::MutexLock lock(mutex_);
  check_open();
  const base::TableKey key = base::value_or_throw(allocate_locked(rank, layout.extent_bytes));
  return TensorAccess::make(incarnation_, {key.slot, key.generation, rank, 0}, 0, layout);
}

StackedDeviceTensor MeshCore::alloc_stacked(const Shape& shape, DType dtype,
                                            std::span<const int> ranks) {
  check_open();
  if (shape.dims() < 2) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "alloc_stacked: shape {} has one dimension; a stack is [shards, tail...]",
                        shape.to_string()));
  }
  const std::vector<int> on = checked_ranks(shape[0], ranks, "alloc_stacked");
  shape.size_bytes(dtype);  // of the whole stack: throws when they overflow
  const Layout layout = tensor::contiguous_layout(dtype, shape.tail());
  std::vector<Shard> shards;
  shards.reserve(on.size());

  Status failed;
  {
    base::MutexLock lock(mutex_);
    check_open();
    for (const int rank : on) {
      auto key = allocate_locked(rank, layout.extent_bytes);
      if (!key) {
        failed = std::move(key).error();
        break;
      }
      shards.push_back({key->slot, key->generation, rank, 1});
    }
  }
  if (!failed.ok()) {
    free_shards(shards);
    throw_error(std::move(failed));
  }
  try {
    return TensorAccess::make_stacked(incarnation_, layout, shards, world_size_);
  } catch (...) {
    free_shards(shards);
    throw;
  }
}

void MeshCore::free_locked(int rank, base::TableKey key) {
  const auto index = static_cast<std::size_t>(rank);
  const auto row = tables_[index]->remove(key);
  if (!row) return;
  bump_epoch_locked();
  pending_changes_[index].add({0, 0, key.slot, 0, 0, 0});
  deferred_.add(rank, row->block, last_run_);
}

// Before anything else that a submit may see: it compares this under the mutex before it publishes.
void MeshCore::bump_epoch_locked() {
  base::store_release(
      epoch_, base::load_relaxed(epoch_) + 1);  // pairs: mesh_epoch  // relaxed: written here only
}

void MeshCore::return_memory_locked() {
  if (deferred_.size() == 0 || base::load_acquire(life_) == Life::closed)
    return;  // pairs: mesh_life
  for (const memory::DeferredFree& freed : deferred_.take_ready(runs_->oldest_run(last_run_ + 1))) {
    if (!pins_.hold_back(freed.rank, freed.block)) give_back_locked(freed.rank, freed.block);
  }
}

void MeshCore::give_back_locked(int rank, const memory::Block& block) noexcept {
  mesh::LinkHeap& heap = *heaps_[static_cast<std::size_t>(rank)];
  memory::poison(heap.address(block), block.bytes);
  heap.release(block);
}

void MeshCore::free_shards(std::span<const Shard> shards) {
  bool left = false;
  {
    base::MutexLock lock(mutex_);
    for (const Shard& shard : shards) free_locked(shard.rank, {shard.slot, shard.generation});
    return_memory_locked();
    left = deferred_.size() != 0;
  }
  if (left) ask_keeper();
}

void MeshCore::free(const DeviceTensor& tensor) {
  check_open();
  check_mesh(TensorAccess::mesh(tensor), "free");
  const Shard& shard = TensorAccess::shard(tensor);
  if (shard.is_view != 0) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "free: the tensor {} is a view, {} bytes from the start of its buffer; "
                        "free the tensor that {} gave",
                        tensor::describe(TensorAccess::layout(tensor)),
                        TensorAccess::offset_bytes(tensor),
                        shard.of_stack != 0 ? "alloc_stacked" : "alloc")
                    .with_rank(shard.rank));
  }
  if (shard.of_stack != 0) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "free: the tensor is one shard of a stacked tensor; free the stack")
                    .with_rank(shard.rank));
  }
  free_shards({&shard, 1});
}

void MeshCore::free(const StackedDeviceTensor& tensor) {
  check_open();
  const StackedData* data = TensorAccess::data(tensor);
  check_mesh(data == nullptr ? 0 : data->mesh, "free");
  free_shards(data->shards);
}

}  // namespace rankcast::detail
