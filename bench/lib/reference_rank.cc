// What a rank of the reference does, in its own thread.
#include <algorithm>
#include <cstring>
#include <latch>

#include "base/clock.h"
#include "base/futex.h"
#include "bench/lib/reference.h"

namespace rankcast::bench {

void Reference::wait_bell(Lane& lane, Bell kind, std::uint32_t round) noexcept {
  const bool all = kind == Bell::all;
  std::atomic<std::uint32_t>& bell = all ? bell_for_all_ : lane.bell;
  base::Spinner spinner(spin_);
  do {
    if (base::load_acquire(bell) == round) return;  // pairs: reference-bell
  } while (spinner.keep_spinning());
  // The race is the one that Reference::ring names.
  for (;;) {
    if (all) {
      base::fetch_add_seq_cst(ranks_asleep_, 1);
    } else {
      base::store_seq_cst(lane.asleep, 1);
    }
    const std::uint32_t seen = base::load_seq_cst(bell);  // pairs: reference-bell
    if (seen != round) base::futex_wait(bell, seen, base::kFutexAll, base::Deadline::never());
    if (all) {
      base::fetch_sub_relaxed(ranks_asleep_, 1);  // relaxed: a late fall costs one wake-up call
    } else {
      base::store_relaxed(lane.asleep, 0);  // relaxed: a stale 1 costs one wake-up call, no more
    }
    if (base::load_acquire(bell) == round) return;  // pairs: reference-bell
  }
}

void Reference::run_rank(int rank, Bell bell, std::uint32_t first_round,
                         std::latch& ready) noexcept {
  Lane& lane = *lanes_[static_cast<std::size_t>(rank)];
  std::vector<DLTensor> tensors(args_);
  for (std::size_t i = 0; i < args_; ++i) {
    Layout& layout = layouts_[i];
    const DLDataType dtype = slots_[handles_[i].slot].dtype;
    tensors[i] = {
        nullptr, {kDLCPU, rank}, layout.dims, dtype, layout.shape.data(), layout.strides.data(), 0};
  }
  const std::uint32_t never = 0;
  rankcast_kernel_context context{};
  context.struct_size = sizeof(context);
  context.abi_version = RANKCAST_KERNEL_ABI_VERSION;
  context.rank = rank;
  context.world_size = static_cast<std::int32_t>(lanes_.size());
  context.abort_word = &never;
  rankcast_call call{};
  call.struct_size = sizeof(call);
  call.tensor_count = static_cast<std::uint32_t>(args_);
  call.tensors = tensors.data();
  call.tags = tags_.data();

  rankcast_preparation preparation{};
  preparation.struct_size = sizeof(preparation);
  lane.status = RANKCAST_OK;
  if (kernel_ != nullptr && kernel_->prepare != nullptr) {
    lane.status = kernel_->prepare(&context, &call, &preparation, &lane.failure);
  }
  const bool prepared = lane.status == RANKCAST_OK;
  Memory<std::byte> workspace;
  if (preparation.workspace_bytes != 0) {
    const std::uint64_t bytes = (preparation.workspace_bytes + 255) / 256 * 256;
    workspace.reset(static_cast<std::byte*>(std::aligned_alloc(256, bytes)));
    context.workspace = workspace.get();
    context.workspace_bytes = bytes;
  }
  ready.count_down();

  const std::byte* memory = lane.memory.get();
  for (std::uint32_t round = first_round;; ++round) {
    wait_bell(lane, bell, round);
    if (base::load_relaxed(stop_) != 0) break;  // relaxed: the bell orders it
    lane.entry_ns = base::now_ns();
    const Slot* frame = lane.frame.get();
    for (std::size_t i = 0; i < args_; ++i) {
      const Slot& descriptor = frame[i];
      Layout& layout = layouts_[descriptor.layout];
      DLTensor& tensor = tensors[i];
      tensor.data = const_cast<std::byte*>(memory + descriptor.offset);
      tensor.ndim = layout.dims;
      tensor.dtype = descriptor.dtype;
      tensor.shape = layout.shape.data();
      tensor.strides = layout.strides.data();
      tensor.byte_offset = 0;
    }
    if (kernel_ != nullptr) {
      lane.status = kernel_->run(&context, preparation.state, &call, &lane.failure);
    }
    // What each rank has done reaches the host by way of the last one.
    const std::uint32_t left_before = base::fetch_sub_acq_rel(left_, 1);  // pairs: reference-done
    if (left_before == 1) {
      // The race is the one that Reference::wait_done names.
      base::store_seq_cst(done_, round);  // pairs: reference-done
      if (base::load_seq_cst(host_asleep_) != 0) base::futex_wake(done_, base::kFutexAll);
    }
  }
  if (prepared && kernel_ != nullptr && kernel_->release != nullptr) {
    kernel_->release(preparation.state);
  }
}

}  // namespace rankcast::bench
