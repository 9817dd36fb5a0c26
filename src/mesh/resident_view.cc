// Resident views: the host's own addresses of tensors, pinned. All memory of tensors is mapped by
// the host, on every link.
#include "rankcast/resident_view.h"

#include <utility>

#include "frame/undefined_list.h"
#include "mesh/core.h"
#include "tensor/layout.h"
#include "tensor/tensor_access.h"

namespace rankcast {

namespace detail {

using base::failure;
using base::throw_error;

/// One pin on one block; gone with the view.
struct ViewPin {
  ViewPin(std::shared_ptr<MeshCore> core, int on_rank, const memory::Block& pinned) noexcept
      : mesh(std::move(core)), rank(on_rank), block(pinned) {}
  ~ViewPin() {
    if (mesh->is_forked()) {
      leak(std::move(mesh));
    } else {
      mesh->unpin(rank, block);
    }
  }
  ViewPin(const ViewPin&) = delete;
  ViewPin& operator=(const ViewPin&) = delete;

  std::shared_ptr<MeshCore> mesh;
  int rank;
  memory::Block block;
};

ResidentView MeshCore::view(const DeviceTensor& tensor) {
  check_open();
  check_mesh(TensorAccess::mesh(tensor), "view");
  check_not_orchestrating("view");
  const Shard& shard = TensorAccess::shard(tensor);
  const Layout& layout = TensorAccess::layout(tensor);
  const auto index = static_cast<std::size_t>(shard.rank);
  std::unique_ptr<ViewPin> pin;
  std::byte* data = nullptr;
  frame::Region region;
  {
    base::MutexLock lock(mutex_);
    check_open();
    const memory::BufferRow* row = tables_[index]->find({shard.slot, shard.generation});
    if (row == nullptr) {
      throw_error(failure(ErrorCode::stale_tensor,
                          "view: the tensor was freed (slot {}, generation {} of rank {} is no "
                          "longer live); pass a live tensor",
                          shard.slot, shard.generation, shard.rank)
                      .with_rank(shard.rank));
    }
    data = heaps_[index]->address(row->block) + TensorAccess::offset_bytes(tensor);
    region = {.segment = heaps_[index]->segment_id(row->block),
              .reserved = 0,
              .offset = row->block.offset + TensorAccess::offset_bytes(tensor),
              .layout = layout};
    pins_.add(shard.rank, row->block);
    try {
      pin = std::make_unique<ViewPin>(shared_from_this(), shard.rank, row->block);
    } catch (...) {
      pins_.remove(shard.rank, row->block);
      throw;
    }
  }
  wait_for_rank(tensor);
  if (const auto run = find_undefined(region, shard.rank)) {
    throw_error(failure(ErrorCode::undefined_contents,
                        "view: the contents are undefined: {} should have written them, but a task "
                        "of it failed or did not start; upload them, or write all of them first",
                        *run == 0 ? std::string("an earlier run") : fmt::format("run {}", *run))
                    .with_rank(shard.rank));
  }
  return {data, layout, shard.rank, std::move(pin)};
}

// A view counts as a run: it downloads one element, after all that was submitted before.
void MeshCore::wait_for_rank(const DeviceTensor& tensor) {
  const Layout one = tensor::contiguous_layout(tensor.dtype(), Shape{1});
  std::uint64_t element = 0;
  const TransferPart part{TensorAccess::shard(tensor), TensorAccess::offset_bytes(tensor), &one,
                          &element};
  transfer(frame::TaskKind::download, {&part, 1});
}

std::optional<std::uint64_t> MeshCore::find_undefined(const frame::Region& region, int rank) {
  base::MutexLock lock(mutex_);
  return frame::find_undefined(runs_->undefined(rank), region);
}

void MeshCore::unpin(int rank, const memory::Block& block) noexcept {
  base::MutexLock lock(mutex_);
  const bool freed = pins_.remove(rank, block);
  if (base::load_acquire(life_) == Life::closed) {  // pairs: mesh_life
    if (pins_.empty()) link_->drop_segments();
  } else if (freed) {
    give_back_locked(rank, block);
  }
}

}  // namespace detail

ResidentView::ResidentView() noexcept = default;
ResidentView::~ResidentView() = default;

ResidentView::ResidentView(ResidentView&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      layout_(std::exchange(other.layout_, detail::Layout())),
      rank_(std::exchange(other.rank_, -1)),
      pin_(std::move(other.pin_)) {}

ResidentView& ResidentView::operator=(ResidentView&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(layout_, other.layout_);
  std::swap(rank_, other.rank_);
  std::swap(pin_, other.pin_);
  return *this;
}

ResidentView::ResidentView(const void* data, const detail::Layout& layout, int rank,
                           std::unique_ptr<detail::ViewPin> pin) noexcept
    : data_(data), layout_(layout), rank_(rank), pin_(std::move(pin)) {}

Shape ResidentView::shape() const { return tensor::layout_shape(layout_); }

}  // namespace rankcast
