// The format, version 4: sizes and offsets of everything that crosses a link. A change here is a
// new version.
#include "frame/records.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace rankcast::frame {
namespace {

TEST(FrameRecords, VersionFive) { EXPECT_EQ(kFormatVersion, 5); }

TEST(FrameRecords, RecordIsOneLine) {
  EXPECT_EQ(sizeof(Record), 64u);
  EXPECT_EQ(offsetof(Record, run), 0u);
  EXPECT_EQ(offsetof(Record, frame), 8u);
  EXPECT_EQ(offsetof(Record, side), 24u);
  EXPECT_EQ(offsetof(Record, run_record), 40u);
  EXPECT_EQ(offsetof(Record, frame_version), 44u);
  EXPECT_EQ(offsetof(Record, lane), 48u);
  EXPECT_EQ(offsetof(Record, format), 52u);
  EXPECT_EQ(offsetof(Record, kind), 54u);
  EXPECT_EQ(offsetof(Record, flags), 55u);
  EXPECT_EQ(offsetof(Record, tasks), 56u);
  EXPECT_EQ(offsetof(BlockRef, segment), 8u);
  EXPECT_EQ(offsetof(BlockRef, bytes), 12u);
}

TEST(FrameRecords, FrameHeader) {
  EXPECT_EQ(sizeof(FrameHeader), 128u);
  EXPECT_EQ(offsetof(FrameHeader, magic), 0u);
  EXPECT_EQ(offsetof(FrameHeader, format), 4u);
  EXPECT_EQ(offsetof(FrameHeader, header_bytes), 6u);
  EXPECT_EQ(offsetof(FrameHeader, frame_bytes), 8u);
  EXPECT_EQ(offsetof(FrameHeader, lane), 12u);
  EXPECT_EQ(offsetof(FrameHeader, world_size), 16u);
  EXPECT_EQ(offsetof(FrameHeader, version), 20u);
  EXPECT_EQ(offsetof(FrameHeader, heap_bytes), 24u);
  EXPECT_EQ(offsetof(FrameHeader, tasks), 32u);
  EXPECT_EQ(offsetof(FrameHeader, arguments), 40u);
  EXPECT_EQ(offsetof(FrameHeader, layouts), 48u);
  EXPECT_EQ(offsetof(FrameHeader, scalars), 56u);
  EXPECT_EQ(offsetof(FrameHeader, edges), 64u);
  EXPECT_EQ(offsetof(FrameHeader, waits), 72u);
  EXPECT_EQ(offsetof(FrameHeader, notifies), 80u);
  EXPECT_EQ(offsetof(FrameHeader, groups), 88u);
  EXPECT_EQ(offsetof(FrameHeader, members), 96u);
}

TEST(FrameRecords, EntriesOfAFrame) {
  EXPECT_EQ(sizeof(TaskRecord), 64u);
  EXPECT_EQ(offsetof(TaskRecord, prepare_id), 0u);
  EXPECT_EQ(offsetof(TaskRecord, kernel), 8u);
  EXPECT_EQ(offsetof(TaskRecord, task), 12u);
  EXPECT_EQ(offsetof(TaskRecord, arguments), 16u);
  EXPECT_EQ(offsetof(TaskRecord, scalars), 24u);
  EXPECT_EQ(offsetof(TaskRecord, edges), 32u);
  EXPECT_EQ(offsetof(TaskRecord, waits), 40u);
  EXPECT_EQ(offsetof(TaskRecord, notifies), 48u);
  EXPECT_EQ(offsetof(TaskRecord, group), 56u);
  EXPECT_EQ(offsetof(TaskRecord, kind), 60u);
  EXPECT_EQ(sizeof(ArgumentRecord), 32u);
  EXPECT_EQ(offsetof(ArgumentRecord, slot), 8u);
  EXPECT_EQ(offsetof(ArgumentRecord, generation), 12u);
  EXPECT_EQ(offsetof(ArgumentRecord, layout), 16u);
  EXPECT_EQ(offsetof(ArgumentRecord, argument), 20u);
  EXPECT_EQ(offsetof(ArgumentRecord, lane), 24u);
  EXPECT_EQ(offsetof(ArgumentRecord, tag), 28u);
  EXPECT_EQ(offsetof(ArgumentRecord, place), 29u);
  EXPECT_EQ(sizeof(LayoutRecord), 144u);
  EXPECT_EQ(sizeof(ScalarRecord), 16u);
  EXPECT_EQ(sizeof(WaitRecord), 16u);
  EXPECT_EQ(sizeof(GroupRecord), 40u);
  EXPECT_EQ(sizeof(GroupWords), 16u);
  EXPECT_EQ(offsetof(GroupRecord, prepare_id), 16u);
}

TEST(FrameRecords, SideBlock) {
  EXPECT_EQ(sizeof(SideHeader), 64u);
  EXPECT_EQ(offsetof(SideHeader, changes), 8u);
  EXPECT_EQ(offsetof(SideHeader, waits), 16u);
  EXPECT_EQ(offsetof(SideHeader, patches), 24u);
  EXPECT_EQ(sizeof(TableChange), 32u);
  EXPECT_EQ(offsetof(TableChange, slot), 16u);
  EXPECT_EQ(offsetof(TableChange, generation), 20u);
  EXPECT_EQ(offsetof(TableChange, segment), 24u);
  EXPECT_EQ(sizeof(RunWait), 16u);
  EXPECT_EQ(sizeof(Patch), 32u);
}

TEST(FrameRecords, RunRecord) {
  EXPECT_EQ(sizeof(RunRecord), 128u);
  EXPECT_EQ(offsetof(RunRecord, outcomes), 16u);
  EXPECT_EQ(offsetof(RunRecord, group_words), 32u);
  EXPECT_EQ(offsetof(RunRecord, lanes_left), 64u)
      << "ranks write it while others read the line above";
  EXPECT_EQ(sizeof(LaneReport), 512u);
  EXPECT_EQ(alignof(LaneReport), 64u) << "two ranks write no line of each other";
  EXPECT_EQ(sizeof(HeapBlock), 24u);
  EXPECT_EQ(offsetof(LaneReport, heap), 16u);
  EXPECT_EQ(offsetof(LaneReport, error_text), 60u);
  EXPECT_EQ(run_record_bytes(8), 128u + 8 * 512);
  RunRecord records[2];
  EXPECT_EQ(reinterpret_cast<std::byte*>(lane_reports(&records[0])),
            reinterpret_cast<std::byte*>(&records[1]));
}

TEST(FrameRecords, Alignment) {
  EXPECT_EQ(aligned(0), 0u);
  EXPECT_EQ(aligned(1), 64u);
  EXPECT_EQ(aligned(64), 64u);
  EXPECT_EQ(aligned(65), 128u);
}

}  // namespace
}  // namespace rankcast::frame
