#include "frame/decode.h"

#include <cstring>

#include "base/timeline.h"
#include "rankcast/kernel_abi.h"
#include "tensor/layout.h"

namespace rankcast::frame {
namespace {

using base::failure;
using base::Status;

template <class T>
bool section_fits(Section section, std::uint64_t total_bytes) noexcept {
  return section.offset % kSectionAlignment == 0 && section.offset <= total_bytes &&
         section.count <= (total_bytes - section.offset) / sizeof(T);
}

bool range_fits(Range range, std::size_t count) noexcept {
  return range.first <= count && range.count <= count - range.first;
}

template <class T>
std::span<T> section_span(std::byte* base, Section section) noexcept {
  return {reinterpret_cast<T*>(base + section.offset), section.count};
}

Status damaged(const char* what, std::size_t index) {
  return failure(ErrorCode::internal, "damaged frame: {} {} is out of bounds", what, index);
}

}  // namespace

Status FrameDecoder::decode(const std::byte* source, std::uint32_t bytes, int lane,
                            int world_size) {
  frame_ = Frame{};
  if (bytes < sizeof(FrameHeader)) {
    return failure(ErrorCode::internal, "damaged frame: {} bytes do not hold a header of {}", bytes,
                   sizeof(FrameHeader));
  }
  copy_.clear();
  std::byte* copy = copy_.extend(bytes);
  std::memcpy(copy, source, bytes);
  FrameHeader& header = frame_.header;
  std::memcpy(&header, copy, sizeof(header));

  if (header.magic != FrameHeader::kMagic || header.format != kFormatVersion ||
      header.header_bytes != sizeof(FrameHeader)) {
    return failure(ErrorCode::internal,
                   "damaged frame: magic {:#x}, format {} with a header of {} bytes; wanted {:#x}, "
                   "{}, {}",
                   header.magic, header.format, header.header_bytes, FrameHeader::kMagic,
                   kFormatVersion, sizeof(FrameHeader));
  }
  if (header.frame_bytes != bytes) {
    return failure(ErrorCode::internal, "damaged frame: its header says {} bytes, its record {}",
                   header.frame_bytes, bytes);
  }
  if (header.lane != static_cast<std::uint32_t>(lane) ||
      header.world_size != static_cast<std::uint32_t>(world_size)) {
    return failure(ErrorCode::internal,
                   "damaged frame: for lane {} of {} ranks, but this is lane {} of {}", header.lane,
                   header.world_size, lane, world_size);
  }
  if (!section_fits<TaskRecord>(header.tasks, bytes) ||
      !section_fits<ArgumentRecord>(header.arguments, bytes) ||
      !section_fits<LayoutRecord>(header.layouts, bytes) ||
      !section_fits<ScalarRecord>(header.scalars, bytes) ||
      !section_fits<std::uint32_t>(header.edges, bytes) ||
      !section_fits<WaitRecord>(header.waits, bytes) ||
      !section_fits<std::uint32_t>(header.notifies, bytes) ||
      !section_fits<GroupRecord>(header.groups, bytes) ||
      !section_fits<std::uint32_t>(header.members, bytes)) {
    return failure(ErrorCode::internal, "damaged frame: a section leaves its {} bytes", bytes);
  }
  if (header.tasks.count > base::TimelineValue::kMaxTasks) {
    return failure(ErrorCode::internal, "damaged frame: {} tasks, the limit is {}",
                   header.tasks.count, base::TimelineValue::kMaxTasks);
  }
  frame_.tasks = section_span<TaskRecord>(copy, header.tasks);
  frame_.arguments = section_span<ArgumentRecord>(copy, header.arguments);
  frame_.layouts = section_span<LayoutRecord>(copy, header.layouts);
  frame_.scalars = section_span<ScalarRecord>(copy, header.scalars);
  frame_.edges = section_span<std::uint32_t>(copy, header.edges);
  frame_.waits = section_span<WaitRecord>(copy, header.waits);
  frame_.notifies = section_span<std::uint32_t>(copy, header.notifies);
  frame_.groups = section_span<GroupRecord>(copy, header.groups);
  frame_.members = section_span<std::uint32_t>(copy, header.members);

  if (Status status = check_arguments(); !status.ok()) return status;
  if (Status status = check_groups(); !status.ok()) return status;
  return check_tasks();
}

Status FrameDecoder::check_tasks() const {
  for (std::size_t i = 0; i < frame_.tasks.size(); ++i) {
    const TaskRecord& task = frame_.tasks[i];
    const bool transfer = task.kind == TaskKind::upload || task.kind == TaskKind::download ||
                          task.kind == TaskKind::copy || task.kind == TaskKind::copy_send;
    const bool good = (transfer ? task.arguments.count == 2 : task.kind == TaskKind::launch) &&
                      range_fits(task.arguments, frame_.arguments.size()) &&
                      range_fits(task.scalars, frame_.scalars.size()) &&
                      range_fits(task.edges, frame_.edges.size()) &&
                      range_fits(task.waits, frame_.waits.size()) &&
                      range_fits(task.notifies, frame_.notifies.size()) &&
                      (task.group == kNone || task.group < frame_.groups.size());
    if (!good) return damaged("task", i);
    for (const std::uint32_t before : frame_.edges.subspan(task.edges.first, task.edges.count)) {
      if ((before & ~kNeeds) >= i) return damaged("an edge of task", i);
    }
  }
  return {};
}

Status FrameDecoder::check_arguments() const {
  for (std::size_t i = 0; i < frame_.layouts.size(); ++i) {
    if (!tensor::is_valid(frame_.layouts[i])) return damaged("layout", i);
  }
  const std::size_t layout_count = frame_.layouts.size();
  bool bad = false;
  for (const ArgumentRecord& argument : frame_.arguments) {
    const auto tag = static_cast<std::uint8_t>(argument.tag);
    const auto place = static_cast<std::uint8_t>(argument.place);
    bad |= (argument.layout >= layout_count) | (tag - 1u > 3u) | (place - 1u > 4u);
  }
  if (bad)
    return failure(ErrorCode::internal,
                   "damaged frame: an argument's layout, tag or place is out of bounds");
  for (std::size_t i = 0; i < frame_.scalars.size(); ++i) {
    const std::uint32_t type = frame_.scalars[i].type;
    if (type != RANKCAST_SCALAR_I64 && type != RANKCAST_SCALAR_F64) return damaged("scalar", i);
  }
  return {};
}

Status FrameDecoder::check_groups() const {
  const std::uint32_t lanes = frame_.header.world_size + 1;
  for (std::size_t i = 0; i < frame_.waits.size(); ++i) {
    const WaitRecord& wait = frame_.waits[i];
    if (wait.lane >= frame_.header.world_size || wait.lane == frame_.header.lane ||
        wait.tasks > base::TimelineValue::kMaxTasks || (wait.flags & ~kNeeds) != 0)
      return damaged("wait", i);
  }
  for (std::size_t i = 0; i < frame_.notifies.size(); ++i) {
    if (frame_.notifies[i] >= lanes) return damaged("notify", i);
  }
  for (std::size_t i = 0; i < frame_.members.size(); ++i) {
    if (frame_.members[i] >= lanes) return damaged("member", i);
  }
  for (std::size_t i = 0; i < frame_.groups.size(); ++i) {
    const GroupRecord& group = frame_.groups[i];
    if (!range_fits(group.members, frame_.members.size()) ||
        group.member_index >= group.members.count) {
      return damaged("group", i);
    }
  }
  return {};
}

Status SideDecoder::decode(const std::byte* source, std::uint32_t bytes, int world_size) {
  side_ = Side{};
  if (bytes < sizeof(SideHeader)) {
    return failure(ErrorCode::internal, "damaged side block: {} bytes do not hold a header of {}",
                   bytes, sizeof(SideHeader));
  }
  copy_.clear();
  std::byte* copy = copy_.extend(bytes);
  std::memcpy(copy, source, bytes);
  SideHeader header;
  std::memcpy(&header, copy, sizeof(header));
  if (header.magic != SideHeader::kMagic || header.bytes != bytes ||
      !section_fits<TableChange>(header.changes, bytes) ||
      !section_fits<RunWait>(header.waits, bytes) || !section_fits<Patch>(header.patches, bytes) ||
      !section_fits<LibraryRecord>(header.libraries, bytes) ||
      !section_fits<char>(header.text, bytes)) {
    return failure(ErrorCode::internal,
                   "damaged side block: magic {:#x}, {} bytes of {}, or a section outside of them",
                   header.magic, header.bytes, bytes);
  }
  side_.changes = section_span<const TableChange>(copy, header.changes);
  side_.waits = section_span<const RunWait>(copy, header.waits);
  side_.patches = section_span<const Patch>(copy, header.patches);
  side_.libraries = section_span<const LibraryRecord>(copy, header.libraries);
  side_.text = section_span<const char>(copy, header.text);
  for (std::size_t i = 0; i < side_.libraries.size(); ++i) {
    const Range path = side_.libraries[i].path;
    if (path.count == 0 || !range_fits(path, side_.text.size()) ||
        side_.path_of(side_.libraries[i]).find('\0') != std::string_view::npos)
      return damaged("the path of library", i);
  }
  for (std::size_t i = 0; i < side_.waits.size(); ++i) {
    if (side_.waits[i].lane >= static_cast<std::uint32_t>(world_size) ||
        (i != 0 && side_.waits[i].before < side_.waits[i - 1].before))
      return damaged("run wait", i);
  }
  for (std::size_t i = 0; i < side_.patches.size(); ++i) {
    if (side_.patches[i].kind != 1 && side_.patches[i].kind != 2) return damaged("a patch", i);
  }
  return {};
}

Status check_record(const Record& record, int lane) {
  const bool kind_known = record.kind == RecordKind::run || record.kind == RecordKind::stop ||
                          record.kind == RecordKind::load_kernels;
  if (record.format != kFormatVersion || !kind_known ||
      record.lane != static_cast<std::uint32_t>(lane) ||
      record.run > base::TimelineValue::kMaxRun) {
    return failure(
        ErrorCode::internal,
        "damaged record: format {}, kind {}, lane {}, run {}; this is lane {}, format {}",
        record.format, static_cast<int>(record.kind), record.lane, record.run, lane,
        kFormatVersion);
  }
  return {};
}

}  // namespace rankcast::frame
