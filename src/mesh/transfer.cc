// Uploads and downloads: runs of one transfer task a rank, after all work published earlier there.
// The caller's thread waits for the end, so the host's memory is used only during the call.
//
// Of a view only its elements are touched; at the host's end they lie packed, in row-major order.
//
// Where ranks do not see the host's memory, bytes go by staging memory in a segment of the rank, in
// packed pieces of at most kStagingBytes a rank; each piece is a run of its own.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "memory/poison.h"
#include "mesh/core.h"
#include "tensor/layout.h"
#include "tensor/pieces.h"
#include "tensor/tensor_access.h"

namespace rankcast::detail {

using base::failure;
using base::Status;
using base::throw_error;

namespace {

template <class Tensor, class View>
void check_match(const Tensor& tensor, const View& view, const char* call) {
  if (view.dtype() != tensor.dtype() || !(view.shape() == tensor.shape())) {
    throw_error(failure(ErrorCode::invalid_argument,
                        "{}: the host memory is {}{}, the tensor {}{}; both must be equal", call,
                        dtype_name(view.dtype()), view.shape().to_string(),
                        dtype_name(tensor.dtype()), tensor.shape().to_string()));
  }
}

Status stale(const char* call, const Shard& shard) {
  return failure(ErrorCode::stale_tensor,
                 "{}: the tensor was freed (slot {}, generation {} of rank {} is no longer live); "
                 "pass a live tensor",
                 call, shard.slot, shard.generation, shard.rank)
      .with_rank(shard.rank);
}

constexpr std::uint64_t kStagingBytes = std::uint64_t{64} << 20;

void* mutable_address(const void* data) noexcept { return const_cast<void*>(data); }

}  // namespace

/// A draft that no other transfer uses, given back at the end.
class MeshCore::TransferDraftLease {
 public:
  explicit TransferDraftLease(MeshCore& core) : core_(core) {
    base::MutexLock lock(core.mutex_);
    if (core.transfer_drafts_.empty()) {
      draft_ = std::make_unique<graph::RunDraft>(core.world_size_);
    } else {
      draft_ = std::move(core.transfer_drafts_.back());
      core.transfer_drafts_.pop_back();
    }
    draft_->clear();
  }
  ~TransferDraftLease() {
    base::MutexLock lock(core_.mutex_);
    core_.transfer_drafts_.push_back(std::move(draft_));
  }
  TransferDraftLease(const TransferDraftLease&) = delete;
  TransferDraftLease& operator=(const TransferDraftLease&) = delete;

  graph::RunDraft& operator*() const noexcept { return *draft_; }
  graph::RunDraft* operator->() const noexcept { return draft_.get(); }

 private:
  MeshCore& core_;  // borrowed from the call
  std::unique_ptr<graph::RunDraft> draft_;
};

/// Staging memory of one piece of a transfer: a block on the rank of each part, given back at the
/// end. The run that uses it has ended by then.
class MeshCore::Staging {
 public:
  explicit Staging(MeshCore& core) : core_(core) {}
  ~Staging() {
    base::MutexLock lock(core_.mutex_);
    for (const Taken& taken : taken_) {
      core_.heaps_[static_cast<std::size_t>(taken.rank)]->release(taken.block);
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Throws `out_of_memory`.
  void add(int rank, std::uint64_t bytes) {
    base::MutexLock lock(core_.mutex_);
    mesh::LinkHeap& heap = *core_.heaps_[static_cast<std::size_t>(rank)];
    taken_.reserve(taken_.size() + 1);
    const memory::Block block = base::value_or_throw(heap.allocate(bytes));
    memory::unpoison(heap.address(block), block.bytes);
    taken_.push_back({rank,
                      block,
                      heap.address(block),
                      {block.offset, heap.segment_id(block), static_cast<std::uint32_t>(bytes)}});
  }

  std::byte* address(std::size_t part) const noexcept { return taken_[part].address; }
  const frame::BlockRef& place(std::size_t part) const noexcept { return taken_[part].place; }

 private:
  struct Taken {
    int rank;
    memory::Block block;
    std::byte* address;  // the host's
    frame::BlockRef place;
  };

  MeshCore& core_;  // borrowed from the call
  std::vector<Taken> taken_;
};

void MeshCore::transfer(frame::TaskKind kind, std::span<const TransferPart> parts) {
  if (link_->shares_host_memory()) {
    run_transfer(kind, parts);
  } else {
    transfer_staged(kind, parts);
  }
}

void MeshCore::transfer_staged(frame::TaskKind kind, std::span<const TransferPart> parts) {
  std::vector<tensor::Pieces> left;  // of each part
  left.reserve(parts.size());
  for (const TransferPart& part : parts) left.emplace_back(*part.layout, kStagingBytes);
  std::vector<Layout> layouts;
  layouts.reserve(parts.size());  // pieces point into it
  std::vector<TransferPart> pieces;
  while (std::ranges::any_of(left, [](const tensor::Pieces& part) { return !part.done(); })) {
    Staging staging(*this);
    layouts.clear();
    pieces.clear();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (left[i].done()) continue;
      const tensor::Pieces::Piece piece = left[i].next();
      layouts.push_back(piece.layout);
      staging.add(parts[i].shard.rank, tensor::layout_size_bytes(piece.layout));
      pieces.push_back({parts[i].shard, parts[i].offset_bytes + piece.offset_bytes, &layouts.back(),
                        static_cast<std::byte*>(parts[i].host) + piece.packed_bytes,
                        staging.place(pieces.size())});
    }
    for (std::size_t i = 0; i < pieces.size() && kind == frame::TaskKind::upload; ++i) {
      std::memcpy(staging.address(i), pieces[i].host, tensor::layout_size_bytes(layouts[i]));
    }
    run_transfer(kind, pieces);
    for (std::size_t i = 0; i < pieces.size() && kind == frame::TaskKind::download; ++i) {
      std::memcpy(pieces[i].host, staging.address(i), tensor::layout_size_bytes(layouts[i]));
    }
  }
}

void MeshCore::run_transfer(frame::TaskKind kind, std::span<const TransferPart> parts) {
  const char* call = kind == frame::TaskKind::upload ? "upload" : "download";
  check_open();
  check_not_orchestrating(call);
  const std::int64_t begin_ns = base::now_ns();
  const std::uint64_t epoch = base::load_acquire(epoch_);  // pairs: mesh_epoch
  const auto check_live = [&]() -> Status {
    for (const TransferPart& part : parts) {
      const memory::BufferTable& table = *tables_[static_cast<std::size_t>(part.shard.rank)];
      if (!table.live({part.shard.slot, part.shard.generation})) return stale(call, part.shard);
    }
    return {};
  };
  base::throw_if_failed(check_live());

  TransferDraftLease draft(*this);
  for (const TransferPart& part : parts) {
    frame::FrameDraft& lane = draft->lane(part.shard.rank);
    frame::TaskRecord task;
    task.kind = kind;
    task.kernel = frame::kNone;
    task.arguments = {static_cast<std::uint32_t>(lane.arguments.size()), 2};
    frame::ArgumentRecord tensor;
    tensor.offset = part.offset_bytes;
    tensor.slot = part.shard.slot;
    tensor.generation = part.shard.generation;
    tensor.layout = static_cast<std::uint32_t>(draft->layouts.size());
    tensor.lane = static_cast<std::uint32_t>(part.shard.rank);
    tensor.tag = kind == frame::TaskKind::upload ? Tag::out : Tag::in;
    frame::ArgumentRecord host = tensor;
    host.offset = reinterpret_cast<std::uint64_t>(part.host);
    host.slot = host.generation = 0;
    host.tag = kind == frame::TaskKind::upload ? Tag::in : Tag::out;
    host.place = frame::Place::host;
    if (part.staging) {
      host.place = frame::Place::segment;
      host.offset = part.staging->offset;
      host.slot = part.staging->segment;
    }
    draft->layouts.push(*part.layout);
    if (!tensor::is_contiguous(*part.layout)) {
      host.layout = static_cast<std::uint32_t>(draft->layouts.size());
      draft->layouts.push(
          tensor::contiguous_layout(part.layout->dtype, tensor::layout_shape(*part.layout)));
    }
    lane.arguments.push(tensor);
    lane.arguments.push(host);
    draft->add_task(part.shard.rank, task);
  }
  RunState* state = reserve(*draft, begin_ns);
  state->is_transfer = true;
  write_frames(*draft, *state);
  publish(*draft, *state, epoch, check_live, [](MeshStats& counters) { ++counters.transfers; });
  wait_and_drop(state);
}

void MeshCore::upload(const DeviceTensor& tensor, const HostView& view) {
  check_open();
  check_mesh(TensorAccess::mesh(tensor), "upload");
  check_match(tensor, view, "upload");
  const TransferPart part{TensorAccess::shard(tensor), TensorAccess::offset_bytes(tensor),
                          &TensorAccess::layout(tensor), mutable_address(view.data())};
  transfer(frame::TaskKind::upload, {&part, 1});
}

void MeshCore::download(const DeviceTensor& tensor, const MutableHostView& view) {
  check_open();
  check_mesh(TensorAccess::mesh(tensor), "download");
  check_match(tensor, view, "download");
  const TransferPart part{TensorAccess::shard(tensor), TensorAccess::offset_bytes(tensor),
                          &TensorAccess::layout(tensor), view.data()};
  transfer(frame::TaskKind::download, {&part, 1});
}

void MeshCore::transfer_stack(frame::TaskKind kind, const StackedData& data, void* host,
                              std::uint64_t stride_bytes) {
  std::vector<TransferPart> parts;
  parts.reserve(data.shards.size());
  for (std::size_t i = 0; i < data.shards.size(); ++i) {
    parts.push_back(
        {data.shards[i], 0, &data.layout, static_cast<std::byte*>(host) + i * stride_bytes});
  }
  transfer(kind, parts);
}

void MeshCore::upload(const StackedDeviceTensor& tensor, const HostView& view) {
  check_open();
  const StackedData* data = TensorAccess::data(tensor);
  check_mesh(data == nullptr ? 0 : data->mesh, "upload");
  check_match(tensor, view, "upload");
  transfer_stack(frame::TaskKind::upload, *data, mutable_address(view.data()),
                 data->layout.extent_bytes);
}

void MeshCore::download(const StackedDeviceTensor& tensor, const MutableHostView& view) {
  check_open();
  const StackedData* data = TensorAccess::data(tensor);
  check_mesh(data == nullptr ? 0 : data->mesh, "download");
  check_match(tensor, view, "download");
  transfer_stack(frame::TaskKind::download, *data, view.data(), data->layout.extent_bytes);
}

void MeshCore::upload_replicated(const StackedDeviceTensor& tensor, const HostView& view) {
  const StackedData* data = TensorAccess::data(tensor);
  transfer_stack(frame::TaskKind::upload, *data, mutable_address(view.data()), 0);
}

}  // namespace rankcast::detail
