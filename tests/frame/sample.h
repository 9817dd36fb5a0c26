// Frames and side blocks for tests: one that uses every section, and its bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/scratch.h"
#include "base/stream_store.h"
#include "frame/decode.h"
#include "frame/encode.h"
#include "rankcast/kernel_abi.h"
#include "tensor/layout.h"

namespace rankcast::frame {

inline constexpr int kSampleLane = 1;
inline constexpr int kSampleWorld = 4;

/// What write_frame wrote, aligned as a frame must be, and cut to its size.
class Bytes {
 public:
  explicit Bytes(std::size_t size) { std::memset(bytes_.extend(size), 0xa5, size); }

  std::byte* data() noexcept { return bytes_.data(); }
  const std::byte* data() const noexcept { return bytes_.data(); }
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(bytes_.size()); }

  /// The struct at an offset, in place: Scratch memory is aligned to a cache line.
  template <class T>
  T& at(std::size_t offset) noexcept {
    return *reinterpret_cast<T*>(bytes_.data() + offset);
  }
  FrameHeader& header() noexcept { return at<FrameHeader>(0); }
  SideHeader& side_header() noexcept { return at<SideHeader>(0); }
  /// Entry `index` of a section.
  template <class T>
  T& entry(Section section, std::size_t index) noexcept {
    return at<T>(section.offset + index * sizeof(T));
  }

 private:
  base::Scratch<std::byte> bytes_;
};

inline Bytes encoded(const FrameDraft& draft, std::span<const LayoutRecord> layouts,
                     int lane = kSampleLane, int world_size = kSampleWorld,
                     base::StoreKind kind = base::StoreKind::ordinary) {
  Bytes bytes(frame_bytes(draft, layouts.size()).value());
  write_frame(bytes.data(), draft, layouts, lane, world_size, kind);
  base::store_fence(kind);
  return bytes;
}

inline Bytes encoded(const SideDraft& draft) {
  Bytes bytes(side_bytes(draft).value());
  write_side(bytes.data(), draft);
  return bytes;
}

/// A draft with its layouts.
struct Sample {
  FrameDraft draft;
  std::vector<LayoutRecord> layouts;

  Bytes bytes() const { return encoded(draft, layouts); }
};

/// Three tasks: a launch with everything, an upload, a launch without anything.
inline Sample make_sample() {
  Sample sample;
  sample.layouts = {tensor::contiguous_layout(DType::f32, {2, 3}),
                    tensor::contiguous_layout(DType::i64, {5})};
  FrameDraft& draft = sample.draft;
  for (std::uint32_t i = 0; i < 4; ++i) {
    ArgumentRecord argument;
    argument.offset = 64 * i;
    argument.slot = 10 + i;
    argument.generation = 2 * i + 1;
    argument.layout = i % 2;
    argument.argument = i;
    argument.lane = kSampleLane;
    argument.tag = static_cast<Tag>(1 + i);
    argument.place = i == 3 ? Place::host : Place::buffer;
    draft.arguments.push(argument);
  }
  draft.scalars.push({0x3ff0000000000000u, RANKCAST_SCALAR_F64, kNone});
  draft.scalars.push({7, RANKCAST_SCALAR_I64, 2});
  draft.edges.push(0);
  draft.waits.push({0, 3, 7, kNeeds});
  draft.waits.push({kSampleWorld - 1, 1, 9, 0});
  draft.notifies.push(2);
  draft.members.push(1);
  draft.members.push(3);
  draft.groups.push({{0, 2}, 0, 5, 99, {64, 3, 4096}});

  TaskRecord launch;
  launch.prepare_id = 17;
  launch.kernel = 3;
  launch.task = 40;
  launch.arguments = {0, 2};
  launch.scalars = {0, 2};
  launch.waits = {0, 2};
  launch.notifies = {0, 1};
  launch.group = 0;
  draft.tasks.push(launch);
  TaskRecord upload;
  upload.kernel = kNone;
  upload.task = 41;
  upload.kind = TaskKind::upload;
  upload.arguments = {2, 2};
  upload.edges = {0, 1};
  draft.tasks.push(upload);
  TaskRecord last;
  last.kernel = 4;
  last.task = 42;
  last.edges = {0, 1};
  draft.tasks.push(last);
  return sample;
}

struct SideSample {
  std::vector<TableChange> changes = {{4096, 100, 3, 5, 2, 0}, {0, 0, 4, 0, 0, 0}};
  std::vector<RunWait> waits = {{77, 0, 0}, {78, kSampleWorld - 1, 2}};
  std::vector<Patch> patches = {{64, 1, 2, 3, 1, 0}, {0, 2, 0, 0, 2, 0}};

  std::vector<LibraryRecord> libraries = {{{1, 2, 3}, 7, 2, {0, 5}}, {{9}, 9, 1, {2, 5}}};
  std::string text = "/a/b.so";

  SideDraft draft() const { return {changes, waits, patches, libraries, text}; }
  Bytes bytes() const { return encoded(draft()); }
};

inline base::Status decode(FrameDecoder& decoder, const Bytes& bytes) {
  return decoder.decode(bytes.data(), bytes.size(), kSampleLane, kSampleWorld);
}
inline base::Status decode(SideDecoder& decoder, const Bytes& bytes) {
  return decoder.decode(bytes.data(), bytes.size(), kSampleWorld);
}

}  // namespace rankcast::frame
