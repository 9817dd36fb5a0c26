// Any bytes are a frame, or a side block, or are refused; what is accepted lies inside its bounds.
//
// The first byte chooses: even, the rest is a frame for lane 1 of 4; odd, a side block of a mesh
// of 4.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/scratch.h"
#include "frame/decode.h"
#include "tensor/layout.h"

namespace {

using namespace rankcast;

constexpr int kLane = 1;
constexpr int kWorld = 4;

bool inside(frame::Range range, std::size_t count) {
  return range.first <= count && range.count <= count - range.first;
}

void check_frame(const frame::Frame& frame) {
  for (std::size_t i = 0; i < frame.tasks.size(); ++i) {
    const frame::TaskRecord& task = frame.tasks[i];
    RC_CHECK(inside(task.arguments, frame.arguments.size()));
    RC_CHECK(inside(task.scalars, frame.scalars.size()));
    RC_CHECK(inside(task.edges, frame.edges.size()));
    RC_CHECK(inside(task.waits, frame.waits.size()));
    RC_CHECK(inside(task.notifies, frame.notifies.size()));
    RC_CHECK(task.group == frame::kNone || task.group < frame.groups.size());
    for (std::uint32_t edge = 0; edge < task.edges.count; ++edge) {
      RC_CHECK(frame.edges[task.edges.first + edge] < i);
    }
  }
  for (const frame::ArgumentRecord& argument : frame.arguments) {
    RC_CHECK(argument.layout < frame.layouts.size());
  }
  for (const frame::LayoutRecord& layout : frame.layouts) {
    RC_CHECK(tensor::is_valid(layout));
    RC_CHECK(!tensor::describe(layout).empty());
  }
  for (const frame::WaitRecord& wait : frame.waits) RC_CHECK(wait.lane <= kWorld);
  for (const frame::GroupRecord& group : frame.groups) {
    RC_CHECK(inside(group.members, frame.members.size()) &&
             group.member_index < group.members.count);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = static_cast<std::uint32_t>(size - 1);
  const auto* source = reinterpret_cast<const std::byte*>(data + 1);
  base::Status status;
  if (data[0] % 2 == 0) {
    frame::FrameDecoder decoder;
    status = decoder.decode(source, bytes, kLane, kWorld);
    if (status.ok()) check_frame(decoder.frame());
  } else {
    frame::SideDecoder decoder;
    status = decoder.decode(source, bytes, kWorld);
    for (const frame::RunWait& wait : decoder.side().waits) {
      RC_CHECK(!status.ok() || wait.lane <= kWorld);
    }
    for (const frame::LibraryRecord& library : decoder.side().libraries) {
      if (!status.ok()) break;
      const std::string_view path = decoder.side().path_of(library);
      RC_CHECK(!path.empty() && path.find('\0') == std::string_view::npos);
      RC_CHECK(path.data() >= decoder.side().text.data() &&
               path.size() <= decoder.side().text.size());
    }
  }
  RC_CHECK(status.ok() || (status.code == ErrorCode::internal && !status.text.empty()));
  return 0;
}
