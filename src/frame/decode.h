// The rank's end of the frame format: copy first, then check, then use.
//
// The host may be another process and its memory may change under our eyes; nothing is believed
// before it lies in the rank's own memory. After a good decode every range, index and enumerator in
// the copy is inside its bounds. What needs the rank's state (buffers, kernels, other lanes) is
// checked where that state is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/scratch.h"
#include "base/status.h"
#include "frame/records.h"

namespace rankcast::frame {

/// A frame in the rank's own memory. Spans point into the decoder; good until its next decode.
struct Frame {
  FrameHeader header;
  std::span<const TaskRecord> tasks;
  std::span<const ArgumentRecord> arguments;
  std::span<LayoutRecord> layouts;  // not const: DLPack's shape pointers are not
  std::span<const ScalarRecord> scalars;
  std::span<const std::uint32_t> edges;
  std::span<const WaitRecord> waits;
  std::span<const std::uint32_t> notifies;
  std::span<const GroupRecord> groups;
  std::span<const std::uint32_t> members;
};

/// A rank's private copy of one frame. One thread. Allocates only to grow.
class FrameDecoder {
 public:
  /// Copies `bytes` bytes from `source` and checks them. Fails with `internal`, saying which field
  /// of which entry is wrong; the frame is then unusable.
  base::Status decode(const std::byte* source, std::uint32_t bytes, int lane, int world_size);

  /// True if `source` has the very bytes of the frame decoded last, well or not.
  bool holds(const std::byte* source, std::uint32_t bytes) const noexcept {
    return bytes == copy_.size() && std::memcmp(copy_.data(), source, bytes) == 0;
  }

  const Frame& frame() const noexcept { return frame_; }

 private:
  base::Status check_tasks() const;
  base::Status check_arguments() const;
  base::Status check_groups() const;

  base::Scratch<std::byte> copy_;
  Frame frame_;
};

/// A side block in the rank's own memory.
struct Side {
  std::span<const TableChange> changes;
  std::span<const RunWait> waits;
  std::span<const Patch> patches;
  std::span<const LibraryRecord> libraries;
  std::span<const char> text;

  std::string_view path_of(const LibraryRecord& library) const noexcept {
    return {text.data() + library.path.first, library.path.count};
  }
};

/// The same for a record's side block.
class SideDecoder {
 public:
  base::Status decode(const std::byte* source, std::uint32_t bytes, int world_size);
  /// As after an empty block.
  void clear() noexcept { side_ = Side{}; }
  const Side& side() const noexcept { return side_; }

 private:
  base::Scratch<std::byte> copy_;
  Side side_;
};

/// The fields of a record that can be checked without the rank's state.
base::Status check_record(const Record& record, int lane);

}  // namespace rankcast::frame
