// What is encoded decodes to the same.
#include "frame/encode.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

#include "base/timeline.h"
#include "frame/decode.h"
#include "frame/sample.h"

namespace rankcast::frame {
namespace {

template <class T>
bool same_bytes(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Everything of the draft is in the frame, and nothing else.
bool same(const Frame& frame, const FrameDraft& draft, std::span<const LayoutRecord> layouts) {
  return same_bytes(frame.tasks, draft.tasks.span()) &&
         same_bytes(frame.arguments, draft.arguments.span()) &&
         same_bytes(std::span<const LayoutRecord>(frame.layouts), layouts) &&
         same_bytes(frame.scalars, draft.scalars.span()) &&
         same_bytes(frame.edges, draft.edges.span()) &&
         same_bytes(frame.waits, draft.waits.span()) &&
         same_bytes(frame.notifies, draft.notifies.span()) &&
         same_bytes(frame.groups, draft.groups.span()) &&
         same_bytes(frame.members, draft.members.span());
}

TEST(FrameEncode, TheSampleDecodesToItself) {
  const Sample sample = make_sample();
  for (const base::StoreKind kind : {base::StoreKind::ordinary, base::StoreKind::streaming}) {
    const Bytes bytes = encoded(sample.draft, sample.layouts, kSampleLane, kSampleWorld, kind);
    EXPECT_EQ(bytes.size() % kSectionAlignment, 0u);
    FrameDecoder decoder;
    const base::Status status = decode(decoder, bytes);
    ASSERT_TRUE(status.ok()) << status.text;
    EXPECT_TRUE(same(decoder.frame(), sample.draft, sample.layouts));
    EXPECT_EQ(decoder.frame().header.lane, static_cast<std::uint32_t>(kSampleLane));
    EXPECT_EQ(decoder.frame().header.world_size, static_cast<std::uint32_t>(kSampleWorld));
    EXPECT_EQ(decoder.frame().header.frame_bytes, bytes.size());
    EXPECT_EQ(decoder.frame().header.version, 0u);
  }
}

TEST(FrameEncode, AnEmptyFrameIsItsHeader) {
  const FrameDraft draft;
  const Bytes bytes = encoded(draft, {});
  EXPECT_EQ(bytes.size(), sizeof(FrameHeader));
  FrameDecoder decoder;
  ASSERT_TRUE(decode(decoder, bytes).ok());
  EXPECT_TRUE(decoder.frame().tasks.empty());
}

TEST(FrameEncode, SectionsBeginAtLinesAndFollowOneAnother) {
  Bytes bytes = make_sample().bytes();
  const FrameHeader& header = bytes.header();
  const Section sections[] = {header.tasks,    header.arguments, header.layouts,
                              header.scalars,  header.edges,     header.waits,
                              header.notifies, header.groups,    header.members};
  const std::size_t sizes[] = {sizeof(TaskRecord),
                               sizeof(ArgumentRecord),
                               sizeof(LayoutRecord),
                               sizeof(ScalarRecord),
                               4,
                               sizeof(WaitRecord),
                               4,
                               sizeof(GroupRecord),
                               4};
  std::uint64_t end = sizeof(FrameHeader);
  for (std::size_t i = 0; i < std::size(sections); ++i) {
    EXPECT_EQ(sections[i].offset, end) << i;
    end += aligned(sections[i].count * sizes[i]);
  }
  EXPECT_EQ(end, bytes.size());
}

TEST(FrameEncode, WhatIsDecodedIsACopy) {
  Bytes bytes = make_sample().bytes();
  FrameDecoder decoder;
  ASSERT_TRUE(decode(decoder, bytes).ok());
  std::memset(bytes.data(), 0xff, bytes.size());
  EXPECT_TRUE(same(decoder.frame(), make_sample().draft, make_sample().layouts));
}

TEST(FrameEncode, ADraftIsEmptyAfterClear) {
  Sample sample = make_sample();
  sample.draft.clear();
  EXPECT_EQ(frame_bytes(sample.draft, 0).value(), sizeof(FrameHeader));
}

TEST(FrameEncode, RefusesMoreTasksThanATimelineCounts) {
  FrameDraft draft;
  draft.tasks.extend(base::TimelineValue::kMaxTasks);
  EXPECT_TRUE(frame_bytes(draft, 0));
  draft.tasks.extend(1);
  const auto refused = frame_bytes(draft, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(refused.error().text.find("1048576 tasks"), std::string::npos) << refused.error().text;
  EXPECT_NE(refused.error().text.find("1048575"), std::string::npos) << refused.error().text;
}

TEST(FrameEncode, RefusesFramesOfFourGibibytes) {
  // Layouts are counted, not looked at.
  const std::size_t most = (std::size_t{1} << 32) / sizeof(LayoutRecord);
  EXPECT_TRUE(frame_bytes(FrameDraft(), most - 10));
  const auto refused = frame_bytes(FrameDraft(), most + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(refused.error().text.find("4294967295"), std::string::npos) << refused.error().text;
}

TEST(SideEncode, TheSampleDecodesToItself) {
  const SideSample sample;
  const Bytes bytes = sample.bytes();
  EXPECT_EQ(bytes.size() % kSectionAlignment, 0u);
  SideDecoder decoder;
  const base::Status status = decode(decoder, bytes);
  ASSERT_TRUE(status.ok()) << status.text;
  EXPECT_TRUE(same_bytes(decoder.side().changes, std::span<const TableChange>(sample.changes)));
  EXPECT_TRUE(same_bytes(decoder.side().waits, std::span<const RunWait>(sample.waits)));
  EXPECT_TRUE(same_bytes(decoder.side().patches, std::span<const Patch>(sample.patches)));
  EXPECT_TRUE(
      same_bytes(decoder.side().libraries, std::span<const LibraryRecord>(sample.libraries)));
  EXPECT_EQ(decoder.side().path_of(decoder.side().libraries[0]), "/a/b.");
  EXPECT_EQ(decoder.side().path_of(decoder.side().libraries[1]), "/b.so");
}

TEST(SideEncode, NothingTakesNoBytes) { EXPECT_EQ(side_bytes(SideDraft{}).value(), 0u); }

/// A valid draft that `random` chooses.
Sample random_sample(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t limit) {
    return static_cast<std::uint32_t>(random() % limit);
  };
  Sample sample;
  constexpr std::int64_t kExtents[] = {1, 2, 7, 64};
  const std::size_t layouts = 1 + below(5);
  for (std::size_t i = 0; i < layouts; ++i) {
    std::vector<std::int64_t> extents(1 + below(kMaxDims));
    for (std::int64_t& extent : extents) extent = kExtents[below(4)];
    sample.layouts.push_back(tensor::contiguous_layout(
        static_cast<DType>(1 + below(kDTypeCount)), Shape(std::span<const std::int64_t>(extents))));
  }
  FrameDraft& draft = sample.draft;
  const std::uint32_t tasks = below(20);
  for (std::uint32_t i = 0; i < tasks; ++i) {
    TaskRecord task;
    task.prepare_id = random();
    task.kernel = below(100);
    task.task = i;
    task.arguments = {static_cast<std::uint32_t>(draft.arguments.size()), below(10)};
    if (below(4) == 0) {
      task.kind = static_cast<TaskKind>(2 + below(4));
      task.arguments.count = 2;
    }
    for (std::uint32_t at = 0; at < task.arguments.count; ++at) {
      draft.arguments.push({random(), below(1000), below(1000), below(layouts), below(142),
                            below(kSampleWorld), static_cast<Tag>(1 + below(4)),
                            static_cast<Place>(1 + below(5)), 0});
    }
    task.scalars = {static_cast<std::uint32_t>(draft.scalars.size()), below(3)};
    for (std::uint32_t at = 0; at < task.scalars.count; ++at)
      draft.scalars.push({random(), 1 + below(2), kNone});
    if (i > 0) {
      task.edges = {static_cast<std::uint32_t>(draft.edges.size()), below(4)};
      for (std::uint32_t at = 0; at < task.edges.count; ++at)
        draft.edges.push(below(i) | (below(2) == 0 ? kNeeds : 0));
    }
    task.waits = {static_cast<std::uint32_t>(draft.waits.size()), below(3)};
    for (std::uint32_t at = 0; at < task.waits.count; ++at)
      draft.waits.push({(kSampleLane + 1 + below(kSampleWorld - 1)) % kSampleWorld, below(1000),
                        below(50), below(2) == 0 ? kNeeds : 0});
    task.notifies = {static_cast<std::uint32_t>(draft.notifies.size()), below(3)};
    for (std::uint32_t at = 0; at < task.notifies.count; ++at)
      draft.notifies.push(below(kSampleWorld + 1));
    if (below(5) == 0) {
      task.group = static_cast<std::uint32_t>(draft.groups.size());
      const Range members{static_cast<std::uint32_t>(draft.members.size()), 1 + below(4)};
      for (std::uint32_t at = 0; at < members.count; ++at)
        draft.members.push(below(kSampleWorld + 1));
      draft.groups.push({members, below(members.count), below(50), random(), {}});
    }
    draft.tasks.push(task);
  }
  return sample;
}

RC_GTEST_PROP(FrameEncode, EveryValidDraftDecodesToItself, (std::uint64_t seed)) {
  std::mt19937_64 random(seed);
  const Sample sample = random_sample(random);
  const auto kind = seed % 2 == 0 ? base::StoreKind::ordinary : base::StoreKind::streaming;
  const Bytes bytes = encoded(sample.draft, sample.layouts, kSampleLane, kSampleWorld, kind);
  FrameDecoder decoder;
  const base::Status status = decode(decoder, bytes);
  RC_LOG() << status.text;
  RC_ASSERT(status.ok());
  RC_ASSERT(same(decoder.frame(), sample.draft, sample.layouts));
}

}  // namespace
}  // namespace rankcast::frame
