#include "rank/frames.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensor/layout.h"

namespace rankcast::rank {

using base::failure;
using base::Status;
using frame::ArgumentRecord;

base::Result<ResolvedFrame*> Frames::take(const frame::Record& record, const std::byte* source,
                                          const frame::LaneReport* reports,
                                          device::Device& device) {
  ++taken_;
  ResolvedFrame* const kept = find_kept(source, record.frame.bytes);
  ResolvedFrame* const at_hand =
      kept != nullptr ? kept : &*std::ranges::min_element(kept_, {}, &ResolvedFrame::last_use);
  if (kept == nullptr) {
    at_hand->resolved = false;
    Status status =
        at_hand->decoder.decode(source, record.frame.bytes, port_.rank(), port_.world_size());
    if (!status.ok()) return tl::unexpected(std::move(status));
  }
  at_hand->last_use = taken_;
  // The timeline ends where the record says: a frame of more or fewer tasks would pass it or fall
  // short.
  if (const std::size_t tasks = at_hand->frame().tasks.size(); tasks != record.tasks) {
    return base::unexpected_failure(ErrorCode::internal,
                                    "damaged record: it says {} tasks, its frame has {}",
                                    record.tasks, tasks);
  }
  if (kept == nullptr) {
    if (Status status = resolve(*at_hand, device.dl_device()); !status.ok())
      return tl::unexpected(std::move(status));
  }
  if (!at_hand->temporaries.empty()) {
    at_hand->resolved = false;
    if (Status status = place_temporaries(*at_hand, reports, device); !status.ok())
      return tl::unexpected(std::move(status));
  }
  at_hand->resolved = true;
  return at_hand;
}

void Frames::forget(std::uint32_t users) noexcept {
  for (std::size_t i = 0; i < kKept; ++i) {
    if ((users >> i & 1) != 0) kept_[i].resolved = false;
  }
}

// A frame that was run before, over buffers that are where they were: what was resolved stands.
// Compared with the rank's own copy, so that only what was checked is used.
ResolvedFrame* Frames::find_kept(const std::byte* source, std::uint32_t bytes) noexcept {
  for (ResolvedFrame& kept : kept_) {
    if (kept.resolved && kept.decoder.holds(source, bytes)) return &kept;
  }
  return nullptr;
}

// Makes a DLTensor of every argument: the rank's half of the path of a dispatch.
Status Frames::resolve(ResolvedFrame& resolved, DLDevice device) {
  const frame::Frame& frame = resolved.frame();

  resolved.layout_views.clear();
  LayoutView* const views = resolved.layout_views.extend(frame.layouts.size());
  for (std::size_t i = 0; i < frame.layouts.size(); ++i) {
    frame::LayoutRecord& layout = frame.layouts[i];
    views[i] = {{nullptr, device, layout.dims, tensor::to_dl(layout.dtype), layout.shape.data(),
                 layout.strides.data(), 0},
                layout.extent_bytes,
                size_bytes(layout.dtype) - 1};
  }

  const std::size_t count = frame.arguments.size();
  const ArgumentRecord* const arguments = frame.arguments.data();
  resolved.tensors.clear();
  resolved.tags.clear();
  resolved.temporaries.clear();
  resolved.heap = {};
  DLTensor* const tensors = resolved.tensors.extend(count);
  std::uint8_t* const tags = resolved.tags.extend(count);
  const std::span<Buffers::Entry> entries = buffers_.entries();
  const std::uint32_t user = 1u << (&resolved - kept_.data());
  for (std::size_t i = 0; i < count; ++i) {
    const ArgumentRecord& argument = arguments[i];
    const LayoutView& view = views[argument.layout];
    tags[i] = static_cast<std::uint8_t>(argument.tag);
    tensors[i] = view.tensor;
    if (argument.place == frame::Place::buffer && argument.slot < entries.size()) [[likely]] {
      Buffers::Entry& entry = entries[argument.slot];
      const bool good = (entry.generation == argument.generation) & (argument.generation != 0) &
                        (argument.offset <= entry.bytes) &
                        (view.extent_bytes <= entry.bytes - argument.offset) &
                        ((argument.offset & view.alignment_mask) == 0);
      if (good) [[likely]] {
        tensors[i].data = entry.address + argument.offset;
        entry.users |= user;
        continue;
      }
    }
    if (argument.place == frame::Place::heap) {
      resolved.temporaries.push(static_cast<std::uint32_t>(i));
      continue;
    }
    tensors[i].data = resolve_elsewhere(argument, view);
    if (tensors[i].data == nullptr) return resolve_failure(frame, i);
  }

  resolved.scalars.clear();
  for (const frame::ScalarRecord& scalar : frame.scalars) {
    rankcast_scalar value{};
    value.type = static_cast<std::int32_t>(scalar.type);
    std::memcpy(&value.value, &scalar.bits, sizeof(value.value));
    resolved.scalars.push(value);
  }
  return {};
}

// Where the run's blocks are where they were, what was resolved stands. Other ranks' blocks are
// looked up each time: they are the sources of copies.
Status Frames::place_temporaries(ResolvedFrame& resolved, const frame::LaneReport* reports,
                                 device::Device& device) {
  const auto own = static_cast<std::uint32_t>(port_.rank());
  const frame::HeapBlock block = reports[own].heap;
  const bool moved = block != resolved.heap || block.bytes == 0;
  resolved.heap = {};
  for (const std::uint32_t i : resolved.temporaries) {
    const ArgumentRecord& argument = resolved.frame().arguments[i];
    if (argument.lane == own && !moved) continue;
    if (argument.lane >= static_cast<std::uint32_t>(port_.world_size())) {
      return failure(ErrorCode::internal, "damaged frame: argument {} is a temporary of rank {}", i,
                     argument.lane);
    }
    const LayoutView& view = resolved.layout_views[argument.layout];
    const frame::HeapBlock at = argument.lane == own ? block : reports[argument.lane].heap;
    auto base = find_heap(at, argument.lane == own, device);
    if (!base) return std::move(base).error();
    if (argument.offset > at.bytes || view.extent_bytes > at.bytes - argument.offset ||
        (argument.offset & view.alignment_mask) != 0) {
      return failure(ErrorCode::internal,
                     "damaged frame: argument {} is a temporary, {} bytes at {} of the {} that the "
                     "run has on rank {}",
                     i, view.extent_bytes, argument.offset, at.bytes, argument.lane);
    }
    resolved.tensors[i].data = *base + argument.offset;
  }
  resolved.heap = block;
  return {};
}

// The run record is the host's, but every rank may write it: what it names is checked.
base::Result<std::byte*> Frames::find_heap(const frame::HeapBlock& block, bool own,
                                           device::Device& device) {
  std::uint64_t bytes = 0;
  std::byte* base = block.bytes == 0 ? nullptr : port_.segment(block.segment, &bytes);
  if (base == nullptr || block.offset > bytes || block.bytes > bytes - block.offset) {
    return base::unexpected_failure(
        ErrorCode::internal, "damaged run record: a heap block of {} bytes at {} of segment {}",
        block.bytes, block.offset, block.segment);
  }
  if (!own) return base + block.offset;
  auto imported = buffers_.import(block.segment, port_, device);
  if (!imported) return tl::unexpected(std::move(imported).error());
  return *imported + block.offset;
}

// Memory that is no buffer of this rank: a transfer's other end. Null if there is none.
std::byte* Frames::resolve_elsewhere(const ArgumentRecord& argument, const LayoutView& view) {
  if (argument.place == frame::Place::host && host_addresses_) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address crosses a record as a number
    return reinterpret_cast<std::byte*>(argument.offset);
  }
  if (argument.place != frame::Place::segment) return nullptr;
  std::uint64_t bytes = 0;
  std::byte* base = port_.segment(argument.slot, &bytes);
  const bool inside = base != nullptr && argument.offset <= bytes &&
                      view.extent_bytes <= bytes - argument.offset &&
                      (argument.offset & view.alignment_mask) == 0;
  return inside ? base + argument.offset : nullptr;
}

Status Frames::resolve_failure(const frame::Frame& frame, std::size_t index) const {
  const ArgumentRecord& argument = frame.arguments[index];
  if (argument.place == frame::Place::segment) {
    return failure(ErrorCode::internal,
                   "damaged frame: argument {} is at {} of segment {}, which does not have it",
                   index, argument.offset, argument.slot);
  }
  if (argument.place != frame::Place::buffer) {
    return failure(ErrorCode::internal,
                   "damaged frame: argument {} is in place {}, which this link does not have",
                   index, static_cast<int>(argument.place));
  }
  const Buffers::Entry entry = buffers_.at(argument.slot);
  return failure(ErrorCode::internal,
                 "damaged frame: argument {} names slot {} generation {} at offset {}, this rank "
                 "has generation {} with {} bytes there",
                 index, argument.slot, argument.generation, argument.offset, entry.generation,
                 entry.bytes);
}

}  // namespace rankcast::rank
