#include "bench/lib/reference_rank.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/futex.h"

namespace rankcast::bench {

namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

void wait_bell(ReferenceHead& head, ReferenceLane& lane, std::uint32_t round) noexcept {
  const bool all = head.bell == Bell::all;
  std::atomic<std::uint32_t>& bell = all ? head.bell_for_all : lane.bell;
  base::Spinner spinner(head.spin);
  do {
    if (base::load_acquire(bell) == round) return;  // pairs: reference-bell
  } while (spinner.keep_spinning());
  // The race is the one that Reference::ring names.
  for (;;) {
    if (all) {
      base::fetch_add_seq_cst(head.ranks_asleep, 1);
    } else {
      base::store_seq_cst(lane.asleep, 1);
    }
    const std::uint32_t seen = base::load_seq_cst(bell);  // pairs: reference-bell
    if (seen != round) base::futex_wait(bell, seen, base::kFutexAll, base::Deadline::never());
    if (all) {
      base::fetch_sub_relaxed(head.ranks_asleep, 1);  // relaxed: a late fall costs one wake-up call
    } else {
      base::store_relaxed(lane.asleep, 0);  // relaxed: a stale 1 costs one wake-up call, no more
    }
    if (base::load_acquire(bell) == round) return;  // pairs: reference-bell
  }
}

void tell_ready(ReferenceHead& head) noexcept {
  base::fetch_add_seq_cst(head.ready, 1);  // pairs: reference-ready
  base::futex_wake(head.ready, base::kFutexAll);
}

}  // namespace

void refuse_reference_rank(const ReferenceMemory& memory, int rank, const char* text) noexcept {
  ReferenceHead& head = memory.head();
  ReferenceLane& lane = memory.lane(static_cast<std::size_t>(rank));
  lane.status = RANKCAST_FAILED;
  std::snprintf(lane.failure.text, sizeof(lane.failure.text), "%s", text);
  tell_ready(head);
  wait_bell(head, lane, head.first_round);
}

void run_reference_rank(const ReferenceMemory& memory, int rank,
                        const rankcast_kernel* kernel) noexcept {
  ReferenceHead& head = memory.head();
  ReferenceLane& lane = memory.lane(static_cast<std::size_t>(rank));
  const std::size_t args = memory.args();
  // A rank's own copy: what a kernel does to them reaches no other rank.
  std::vector<ReferenceLayout> layouts(memory.layouts().begin(), memory.layouts().end());
  std::vector<DLTensor> tensors(args);
  for (std::size_t i = 0; i < args; ++i) {
    ReferenceLayout& layout = layouts[i];
    tensors[i] = {nullptr,
                  {kDLCPU, rank},
                  layout.dims,
                  layout.dtype,
                  layout.shape.data(),
                  layout.strides.data(),
                  0};
  }
  const std::uint32_t never = 0;
  rankcast_kernel_context context{};
  context.struct_size = sizeof(context);
  context.abi_version = RANKCAST_KERNEL_ABI_VERSION;
  context.rank = rank;
  context.world_size = static_cast<std::int32_t>(memory.ranks());
  context.abort_word = &never;
  rankcast_call call{};
  call.struct_size = sizeof(call);
  call.tensor_count = static_cast<std::uint32_t>(args);
  call.tensors = tensors.data();
  call.tags = memory.tags().data();

  rankcast_preparation preparation{};
  preparation.struct_size = sizeof(preparation);
  lane.status = RANKCAST_OK;
  if (kernel != nullptr && kernel->prepare != nullptr) {
    lane.status = kernel->prepare(&context, &call, &preparation, &lane.failure);
  }
  const bool prepared = lane.status == RANKCAST_OK;
  std::unique_ptr<std::byte, Free> workspace;
  if (preparation.workspace_bytes != 0) {
    const std::uint64_t bytes = (preparation.workspace_bytes + 255) / 256 * 256;
    workspace.reset(static_cast<std::byte*>(std::aligned_alloc(256, bytes)));
    context.workspace = workspace.get();
    context.workspace_bytes = bytes;
  }
  const std::byte* bytes = memory.tensors(static_cast<std::size_t>(rank));
  const ReferenceSlot* frame = memory.frame(static_cast<std::size_t>(rank));
  std::uint32_t round = head.first_round;
  tell_ready(head);

  for (;; ++round) {
    wait_bell(head, lane, round);
    if (base::load_relaxed(head.stop) != 0) break;  // relaxed: the bell orders it
    lane.entry_ns = base::now_ns();
    for (std::size_t i = 0; i < args; ++i) {
      const ReferenceSlot& descriptor = frame[i];
      ReferenceLayout& layout = layouts[descriptor.layout];
      DLTensor& tensor = tensors[i];
      tensor.data = const_cast<std::byte*>(bytes + descriptor.offset);
      tensor.ndim = layout.dims;
      tensor.dtype = descriptor.dtype;
      tensor.shape = layout.shape.data();
      tensor.strides = layout.strides.data();
      tensor.byte_offset = 0;
    }
    if (kernel != nullptr) {
      lane.status = kernel->run(&context, preparation.state, &call, &lane.failure);
    }
    // What each rank has done reaches the host by way of the last one.
    const std::uint32_t left_before =
        base::fetch_sub_acq_rel(head.left, 1);  // pairs: reference-done
    if (left_before == 1) {
      // The race is the one that Reference::wait_done names.
      base::store_seq_cst(head.done, round);  // pairs: reference-done
      if (base::load_seq_cst(head.host_asleep) != 0) base::futex_wake(head.done, base::kFutexAll);
    }
  }
  if (prepared && kernel != nullptr && kernel->release != nullptr) {
    kernel->release(preparation.state);
  }
}

}  // namespace rankcast::bench
