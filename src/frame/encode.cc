#include "frame/encode.h"

#include <cstring>
#include <limits>

#include "base/timeline.h"

namespace rankcast::frame {
namespace {

// Lays sections one behind the other.
class SectionCursor {
 public:
  explicit SectionCursor(std::uint64_t header_bytes) noexcept : offset_(header_bytes) {}

  template <class T>
  Section next(std::span<const T> entries) noexcept {
    const Section section{static_cast<std::uint32_t>(offset_),
                          static_cast<std::uint32_t>(entries.size())};
    offset_ += aligned(entries.size_bytes());
    return section;
  }

  std::uint64_t offset() const noexcept { return offset_; }

 private:
  std::uint64_t offset_;
};

base::Result<std::uint32_t> checked_bytes(const char* what, std::uint64_t bytes) {
  constexpr std::uint64_t kLimit = std::numeric_limits<std::uint32_t>::max();
  if (bytes > kLimit) {
    return base::unexpected_failure(
        ErrorCode::invalid_argument,
        "a {} of {} bytes is larger than the limit of {}; split the run", what, bytes, kLimit);
  }
  return static_cast<std::uint32_t>(bytes);
}

template <class T>
void write_section(std::byte* destination, Section section, std::span<const T> entries,
                   base::StoreKind kind) noexcept {
  if (!entries.empty()) {
    base::store_frame(destination + section.offset, entries.data(), entries.size_bytes(), kind);
  }
}

}  // namespace

void FrameDraft::clear() noexcept {
  tasks.clear();
  arguments.clear();
  scalars.clear();
  edges.clear();
  waits.clear();
  notifies.clear();
  groups.clear();
  members.clear();
  heap_bytes = 0;
}

base::Result<std::uint32_t> frame_bytes(const FrameDraft& draft, std::size_t layout_count) {
  if (draft.tasks.size() > base::TimelineValue::kMaxTasks) {
    return base::unexpected_failure(
        ErrorCode::invalid_argument,
        "{} tasks on one rank in one run are more than the limit of {}; split the run",
        draft.tasks.size(), base::TimelineValue::kMaxTasks);
  }
  const std::uint64_t bytes =
      sizeof(FrameHeader) + aligned(draft.tasks.span().size_bytes()) +
      aligned(draft.arguments.span().size_bytes()) + aligned(layout_count * sizeof(LayoutRecord)) +
      aligned(draft.scalars.span().size_bytes()) + aligned(draft.edges.span().size_bytes()) +
      aligned(draft.waits.span().size_bytes()) + aligned(draft.notifies.span().size_bytes()) +
      aligned(draft.groups.span().size_bytes()) + aligned(draft.members.span().size_bytes());
  return checked_bytes("frame", bytes);
}

void write_frame(std::byte* destination, const FrameDraft& draft,
                 std::span<const LayoutRecord> layouts, int lane, int world_size,
                 base::StoreKind kind) noexcept {
  SectionCursor cursor(sizeof(FrameHeader));
  FrameHeader header;
  header.header_bytes = sizeof(FrameHeader);
  header.lane = static_cast<std::uint32_t>(lane);
  header.world_size = static_cast<std::uint32_t>(world_size);
  header.heap_bytes = draft.heap_bytes;
  header.tasks = cursor.next(draft.tasks.span());
  header.arguments = cursor.next(draft.arguments.span());
  header.layouts = cursor.next(layouts);
  header.scalars = cursor.next(draft.scalars.span());
  header.edges = cursor.next(draft.edges.span());
  header.waits = cursor.next(draft.waits.span());
  header.notifies = cursor.next(draft.notifies.span());
  header.groups = cursor.next(draft.groups.span());
  header.members = cursor.next(draft.members.span());
  header.frame_bytes = static_cast<std::uint32_t>(cursor.offset());

  base::store_frame(destination, &header, sizeof(header), kind);
  write_section(destination, header.tasks, draft.tasks.span(), kind);
  write_section(destination, header.arguments, draft.arguments.span(), kind);
  write_section(destination, header.layouts, layouts, kind);
  write_section(destination, header.scalars, draft.scalars.span(), kind);
  write_section(destination, header.edges, draft.edges.span(), kind);
  write_section(destination, header.waits, draft.waits.span(), kind);
  write_section(destination, header.notifies, draft.notifies.span(), kind);
  write_section(destination, header.groups, draft.groups.span(), kind);
  write_section(destination, header.members, draft.members.span(), kind);
}

base::Result<std::uint32_t> side_bytes(const SideDraft& draft) {
  if (draft.empty()) return 0u;
  return checked_bytes(
      "side block", sizeof(SideHeader) + aligned(draft.changes.size_bytes()) +
                        aligned(draft.waits.size_bytes()) + aligned(draft.patches.size_bytes()) +
                        aligned(draft.libraries.size_bytes()) + aligned(draft.text.size_bytes()));
}

void write_side(std::byte* destination, const SideDraft& draft) noexcept {
  SectionCursor cursor(sizeof(SideHeader));
  SideHeader header;
  header.changes = cursor.next(draft.changes);
  header.waits = cursor.next(draft.waits);
  header.patches = cursor.next(draft.patches);
  header.libraries = cursor.next(draft.libraries);
  header.text = cursor.next(draft.text);
  header.bytes = static_cast<std::uint32_t>(cursor.offset());
  std::memcpy(destination, &header, sizeof(header));
  write_section(destination, header.changes, draft.changes, base::StoreKind::ordinary);
  write_section(destination, header.waits, draft.waits, base::StoreKind::ordinary);
  write_section(destination, header.patches, draft.patches, base::StoreKind::ordinary);
  write_section(destination, header.libraries, draft.libraries, base::StoreKind::ordinary);
  write_section(destination, header.text, draft.text, base::StoreKind::ordinary);
}

}  // namespace rankcast::frame
