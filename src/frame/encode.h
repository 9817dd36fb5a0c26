// The host's end of the frame format: drafts that grow while a run is laid out, and their bytes.
//
// A draft is used by one thread at a time and keeps its memory between runs. Writing allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/scratch.h"
#include "base/status.h"
#include "base/stream_store.h"
#include "frame/records.h"

namespace rankcast::frame {

/// One lane's part of a run while it is laid out. Ranges in the records are indices into these
/// arrays.
struct FrameDraft {
  base::Scratch<TaskRecord> tasks;
  base::Scratch<ArgumentRecord> arguments;
  base::Scratch<ScalarRecord> scalars;
  base::Scratch<std::uint32_t> edges;
  base::Scratch<WaitRecord> waits;
  base::Scratch<std::uint32_t> notifies;
  base::Scratch<GroupRecord> groups;
  base::Scratch<std::uint32_t> members;
  std::uint64_t heap_bytes = 0;  // of this lane's block in its rank's heap

  void clear() noexcept;
};

/// Bytes of the frame, a multiple of kSectionAlignment. Fails with `invalid_argument`, naming the
/// number and the limit, for more tasks than a timeline value can count or 4 GiB and more.
base::Result<std::uint32_t> frame_bytes(const FrameDraft& draft, std::size_t layout_count);

/// Writes the frame to `destination`, which is aligned to kSectionAlignment and has room for
/// frame_bytes(). The caller fences (base::store_fence) before publication. `layouts` are those of
/// the whole run.
void write_frame(std::byte* destination, const FrameDraft& draft,
                 std::span<const LayoutRecord> layouts, int lane, int world_size,
                 base::StoreKind kind) noexcept;

/// What belongs to one record alone.
struct SideDraft {
  std::span<const TableChange> changes;
  std::span<const RunWait> waits;
  std::span<const Patch> patches;
  std::span<const LibraryRecord> libraries = {};
  std::span<const char> text = {};

  bool empty() const noexcept {
    return changes.empty() && waits.empty() && patches.empty() && libraries.empty();
  }
};

/// Bytes of the side block, a multiple of kSectionAlignment; 0 for an empty one. Fails like
/// frame_bytes.
base::Result<std::uint32_t> side_bytes(const SideDraft& draft);

/// Writes the side block with ordinary stores.
void write_side(std::byte* destination, const SideDraft& draft) noexcept;

}  // namespace rankcast::frame
