// What host and rank both know: the bytes of records, frames, side blocks and run records.
//
// Everything here is plain data that crosses a link, little-endian, with asserted sizes and
// offsets. A change of any of it raises kFormatVersion. The host writes (frame/encode.h), the rank
// copies and checks (frame/decode.h).
//
//   record (64 bytes, in the rank's ring)
//     -> frame       one run's tasks for one rank; may be used again by later records
//     -> side block  what belongs to this record alone: table changes, waits on other runs, patches
//     -> run record  what the run's ranks and the host share while it is in flight: outcomes,
//     reports, groups
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/countdown.h"
#include "base/group_vote.h"
#include "rankcast/program.h"
#include "rankcast/tensor.h"

namespace rankcast::frame {

inline constexpr std::uint16_t kFormatVersion = 5;
inline constexpr std::uint32_t kNone = 0xffffffffu;

/// Frames, side blocks and their sections begin at multiples of this.
inline constexpr std::uint64_t kSectionAlignment = 64;

constexpr std::uint64_t aligned(std::uint64_t bytes) noexcept {
  return (bytes + kSectionAlignment - 1) & ~(kSectionAlignment - 1);
}

/// Where a block lies: a segment of the mesh and the offset in it.
struct BlockRef {
  std::uint64_t offset = 0;
  std::uint32_t segment = 0;
  std::uint32_t bytes = 0;  // 0: there is no block
};
static_assert(sizeof(BlockRef) == 16);

// ---- The record
// -----------------------------------------------------------------------------------------------------

enum class RecordKind : std::uint8_t {
  run = 1,
  stop = 2,
  load_kernels = 3,  // the libraries of its side block; no frame, no tasks
};

/// Bits of `Record::flags`.
inline constexpr std::uint8_t kNotifyKeeper = 1;  // wake the keeper when this lane has finished

/// Tells a lane to run a frame. Lanes 0..world_size-1 are the ranks; lane world_size is the host's
/// own.
struct Record {
  std::uint64_t run = 0;  // run number: mesh-wide, grows in the order of publication
  BlockRef frame;
  BlockRef side;
  std::uint32_t run_record = 0;     // index of the run's record in the control segment
  std::uint32_t frame_version = 0;  // of a bound frame; 0: this frame is used once
  std::uint32_t lane = 0;
  std::uint16_t format = kFormatVersion;
  RecordKind kind = RecordKind::run;
  std::uint8_t flags = 0;
  std::uint32_t tasks = 0;  // of the run in this lane: where its timeline ends
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Record) == 64 && std::is_trivially_copyable_v<Record>);

// ---- The frame
// ------------------------------------------------------------------------------------------------------

/// A section of a frame: `count` entries, `offset` bytes from the frame's first byte.
struct Section {
  std::uint32_t offset = 0;
  std::uint32_t count = 0;
};

struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x4d465352;  // "RSFM"

  std::uint32_t magic = kMagic;
  std::uint16_t format = kFormatVersion;
  std::uint16_t header_bytes = 0;
  std::uint32_t frame_bytes = 0;
  std::uint32_t lane = 0;
  std::uint32_t world_size = 0;
  std::uint32_t version = 0;     // of a bound frame; 0: used once
  std::uint64_t heap_bytes = 0;  // of this lane's block in its rank's heap
  Section tasks;
  Section arguments;
  Section layouts;
  Section scalars;
  Section edges;     // of TaskRecord::edges
  Section waits;     // of TaskRecord::waits
  Section notifies;  // of TaskRecord::notifies
  Section groups;
  Section members;  // of GroupRecord::members: lanes
  std::uint8_t padding[24] = {};
};
static_assert(sizeof(FrameHeader) == 128 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(offsetof(FrameHeader, tasks) == 32);

enum class TaskKind : std::uint8_t {
  launch = 1,    // a kernel
  upload = 2,    // argument 0 <- argument 1 (host memory), of the same dtype and shape
  download = 3,  // argument 1 (host memory) <- argument 0
  copy =
      4,  // argument 0 <- argument 1, which may be on another rank; run by the destination's lane
  copy_send =
      5,  // the half of a copy in its source's lane; empty where ranks see each other's memory
};

/// A range of a section.
struct Range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// One task of a frame. Its ordinal is its index; it runs after all edges and waits are met.
struct TaskRecord {
  std::uint64_t prepare_id = 0;  // equal for tasks of one kernel over equal shapes, dtypes and
                                 // strides; 0: nothing to prepare
  std::uint32_t kernel = 0;      // id of the kernel; kNone for transfers
  std::uint32_t task = 0;        // number in the run: index of its outcome
  Range arguments;
  Range scalars;
  Range edges;     // ordinals of earlier tasks of this frame, with kNeeds or without
  Range waits;     // on other lanes of this run
  Range notifies;  // lanes that wait for this task, for links whose timelines cannot be polled
  std::uint32_t group = kNone;
  TaskKind kind = TaskKind::launch;
  std::uint8_t flags = 0;
  std::uint16_t reserved = 0;
};
static_assert(sizeof(TaskRecord) == 64 && std::is_trivially_copyable_v<TaskRecord>);

enum class Place : std::uint8_t {
  buffer = 1,   // of this rank: `slot`, `generation`, bytes from its start
  heap = 2,     // a temporary, number `slot`: `offset` from the base of the heap block that the run
                // has on rank `lane`, which is another one for a copy's source
  staging = 3,  // staged host arguments: a relocation, `offset` from the run's staging base
  segment = 4,  // in segment `slot`, `offset` from its start: a copy's source on `lane`, or a
                // transfer's other end where ranks do not see the host's memory
  host = 5,     // an address of the host's process in `offset`, `slot` is unused; only where ranks
                // share it
};

/// One argument of a task: its descriptor. Address-free but for Place::host.
struct ArgumentRecord {
  std::uint64_t offset = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t layout = 0;  // index in the frame's layouts
  std::uint32_t argument =
      kNone;  // index among the arguments of the submit; kNone: the program's own
  std::uint32_t lane = 0;
  Tag tag = Tag::in;
  Place place = Place::buffer;
  std::uint16_t reserved = 0;
};
static_assert(sizeof(ArgumentRecord) == 32 && std::is_trivially_copyable_v<ArgumentRecord>);

/// dtype, shape, strides and extent, shared by all arguments of a frame that have them in common.
using LayoutRecord = rankcast::detail::Layout;
static_assert(sizeof(LayoutRecord) == 144 && std::is_trivially_copyable_v<LayoutRecord>);

struct ScalarRecord {
  std::uint64_t bits = 0;
  std::uint32_t type = 0;  // a rankcast_scalar_type
  std::uint32_t argument =
      kNone;  // index among the arguments of the submit, when it was passed on unread
};
static_assert(sizeof(ScalarRecord) == 16);

/// Bit of an edge and of WaitRecord::flags: the task reads what the earlier one wrote, or was told
/// to come after it, and does not start unless that one ended well. Without it only the order
/// counts.
inline constexpr std::uint32_t kNeeds = 0x80000000u;

/// Wait for a task of another lane of the same run: the record supplies the run number, so that a
/// frame can be used again.
struct WaitRecord {
  std::uint32_t lane = 0;
  std::uint32_t tasks = 0;  // retired there in this run, the one waited for among them
  std::uint32_t task = 0;   // its number in the run: index of its outcome
  std::uint32_t flags = 0;  // kNeeds or 0
};
static_assert(sizeof(WaitRecord) == 16);

/// Tasks of several lanes that start together or not at all.
struct GroupRecord {
  Range members;
  std::uint32_t member_index = 0;  // of this lane
  std::uint32_t group = 0;         // number in the run: index of its words in the run record
  std::uint64_t prepare_id = 0;    // from kernel, member list and all members' shapes
  BlockRef shared;  // the first member's block of shared memory; the others' follow. 0 bytes: none
};
static_assert(sizeof(GroupRecord) == 40);

// ---- The side block
// -------------------------------------------------------------------------------------------------

struct SideHeader {
  static constexpr std::uint32_t kMagic = 0x44535352;  // "RSSD"

  std::uint32_t magic = kMagic;
  std::uint32_t bytes = 0;
  Section changes;
  Section waits;
  Section patches;
  Section libraries;
  Section text;  // of LibraryRecord::path: bytes
  Section reserved[2] = {};
};
static_assert(sizeof(SideHeader) == 64);

/// One change of the rank's buffer table, applied in order before the record's frame.
struct TableChange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  // of the buffer that now has the slot; 0: nobody has
  std::uint32_t segment = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(TableChange) == 32);

/// Wait for another run: an absolute timeline value of a lane. In the order of `before`.
struct RunWait {
  std::uint64_t value = 0;
  std::uint32_t lane = 0;
  std::uint32_t before = 0;  // ordinal of the task of the frame that starts after it
};
static_assert(sizeof(RunWait) == 16);

/// A bound slot's new value, for every argument of the bound frame that names the slot.
struct Patch {
  std::uint64_t offset = 0;  // or a scalar's bits
  std::uint32_t argument = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t kind = 0;  // 1: tensor, 2: scalar
  std::uint64_t reserved = 0;
};
static_assert(sizeof(Patch) == 32);

/// A kernel library to load, and the ids that its kernels get on every rank.
struct LibraryRecord {
  std::uint8_t digest[32] = {};  // SHA-256 of the file
  std::uint32_t first_kernel = 0;
  std::uint32_t kernel_count = 0;
  Range path;  // of the side block's text; no final 0
};
static_assert(sizeof(LibraryRecord) == 48 && std::is_trivially_copyable_v<LibraryRecord>);

// ---- The run record
// -------------------------------------------------------------------------------------------------

/// How a task ended, once its lane's timeline has passed it: one byte in the run's record, written
/// once, by the lane of the task, and only when it is not `good`: a healthy run touches no outcome.
enum class Outcome : std::uint8_t {
  good = 0,       // ended well (or, before the timeline has passed it, not ended)
  failed = 1,     // the kernel or the device reported failure
  poisoned = 2,   // not started: a task it depends on did not succeed
  cancelled = 3,  // not started: the run was cancelled
  rank_lost = 4,  // its rank died
};

inline constexpr std::size_t kErrorTextBytes = 452;

/// The memory that a run has on one rank while it is in flight: its temporaries.
struct HeapBlock {
  std::uint64_t offset = 0;  // in the segment
  std::uint64_t bytes = 0;   // 0: there is none
  std::uint32_t segment = 0;
  std::uint32_t reserved = 0;

  friend bool operator==(const HeapBlock&, const HeapBlock&) = default;
};
static_assert(sizeof(HeapBlock) == 24);

/// What a lane tells about a run. Written by its rank (or the keeper for a dead one) before the
/// timeline advances past the run, read by the host after (frame/report.h).
struct alignas(64) LaneReport {
  std::int64_t entry_ns = 0;  // monotonic clock
  std::int64_t exit_ns = 0;
  HeapBlock heap;         // written by the host before publication, then constant
  std::uint64_t run = 0;  // that this is the report of
  std::uint32_t error_task =
      kNone;  // number in the run of the lane's first failed task; kNone: none, or no task's
  std::uint8_t error_code = 0;  // a rankcast::ErrorCode; 0: no error
  std::uint8_t padding[3] = {};
  std::int32_t error_argument = -1;  // index among that task's arguments
  char error_text[kErrorTextBytes] = {};
};
static_assert(sizeof(LaneReport) == 512);

/// What the members of one group of a run share. All zero bytes before the run is published.
struct GroupWords {
  base::GroupVote start;     // whether it runs
  base::GroupVote prepared;  // whether all have made their preparation, where that was to be made
  // Not 0: members that run give up. Written by: a member that failed, cancel, the keeper. Read by:
  // kernels that wait for their peers. Ordered by: seq_cst.
  std::atomic<std::uint32_t> abort{0};
  std::uint32_t reserved = 0;
};
static_assert(sizeof(GroupWords) == 16);

/// Cancel, or the keeper when a member's rank is gone: a group that has not decided is skipped, one
/// that runs is told to give up. Then Doorbell::ring_everyone.
inline void give_up(GroupWords& words) noexcept {
  if (words.start.decide_to_skip() == base::GroupDecision::skip) return;
  base::store_seq_cst(words.abort, 1u);
  words.prepared.decide_to_skip();
}

/// The fixed part of a run's record in the control segment; LaneReport[world_size] follows it.
///
/// `run`, `tasks`, `groups`, the BlockRefs: written by the host before publication, then constant.
struct alignas(64) RunRecord {
  std::uint64_t run = 0;
  std::uint32_t tasks = 0;
  std::uint32_t groups = 0;
  BlockRef outcomes;     // one Outcome a task, zeroed
  BlockRef group_words;  // one GroupWords a group, zeroed
  std::uint64_t staging_base = 0;
  std::uint64_t reserved = 0;
  // A line of its own: ranks write it while others read the one above.
  alignas(64) base::Countdown lanes_left;
  // Not zero: what has not started shall not start. Written by cancel and the keeper, read by ranks
  // and their kernels; ordered by seq_cst, then Doorbell::ring_waiting.
  std::atomic<std::uint32_t> cancel{0};
};
static_assert(sizeof(RunRecord) == 128 && std::atomic<std::uint32_t>::is_always_lock_free);

/// Bytes of one run's fixed part.
constexpr std::uint64_t run_record_bytes(int world_size) noexcept {
  return sizeof(RunRecord) + static_cast<std::uint64_t>(world_size) * sizeof(LaneReport);
}

inline LaneReport* lane_reports(RunRecord* record) noexcept {
  return reinterpret_cast<LaneReport*>(record + 1);
}
inline const LaneReport* lane_reports(const RunRecord* record) noexcept {
  return reinterpret_cast<const LaneReport*>(record + 1);
}

}  // namespace rankcast::frame
