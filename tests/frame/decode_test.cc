// Every check of the decoders has a damaged frame that it refuses; nothing that crosses a link
// makes them crash.
#include "frame/decode.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "base/timeline.h"
#include "frame/sample.h"

namespace rankcast::frame {
namespace {

struct Damage {
  std::string name;
  std::function<void(Bytes&)> apply;
  std::string expected;
};

Damage header(std::string name, std::function<void(FrameHeader&)> apply, std::string expected) {
  return {std::move(name), [apply](Bytes& bytes) { apply(bytes.header()); }, std::move(expected)};
}

template <class T>
Damage entry(std::string name, Section FrameHeader::* section, std::size_t index,
             std::function<void(T&)> apply, std::string expected) {
  return {std::move(name),
          [=](Bytes& bytes) { apply(bytes.entry<T>(bytes.header().*section, index)); },
          std::move(expected)};
}

Damage task(std::string name, std::size_t index, std::function<void(TaskRecord&)> apply,
            std::string expected = "") {
  return entry<TaskRecord>(
      "task" + name, &FrameHeader::tasks, index, std::move(apply),
      expected.empty() ? "task " + std::to_string(index) + " is out of bounds" : expected);
}
Damage argument(std::string name, std::function<void(ArgumentRecord&)> apply) {
  return entry<ArgumentRecord>("argument" + name, &FrameHeader::arguments, 2, std::move(apply),
                               "argument's layout, tag or place");
}
Damage layout(std::string name, std::function<void(LayoutRecord&)> apply) {
  return entry<LayoutRecord>("layout" + name, &FrameHeader::layouts, 1, std::move(apply),
                             "layout 1 is out of bounds");
}

void add_sections(std::vector<Damage>& all) {
  const std::pair<const char*, Section FrameHeader::*> sections[] = {
      {"Tasks", &FrameHeader::tasks},       {"Arguments", &FrameHeader::arguments},
      {"Layouts", &FrameHeader::layouts},   {"Scalars", &FrameHeader::scalars},
      {"Edges", &FrameHeader::edges},       {"Waits", &FrameHeader::waits},
      {"Notifies", &FrameHeader::notifies}, {"Groups", &FrameHeader::groups},
      {"Members", &FrameHeader::members}};
  for (const auto& [name, section] : sections) {
    const std::string text = "a section leaves its";
    all.push_back(header(
        std::string(name) + "Unaligned", [at = section](FrameHeader& h) { (h.*at).offset += 4; },
        text));
    all.push_back(header(
        std::string(name) + "BehindTheEnd",
        [at = section](FrameHeader& h) {
          (h.*at).offset = static_cast<std::uint32_t>(aligned(h.frame_bytes)) + 64;
        },
        text));
    all.push_back(header(
        std::string(name) + "FarBehind",
        [at = section](FrameHeader& h) { (h.*at).offset = 0xffffffc0u; }, text));
    all.push_back(header(
        std::string(name) + "TooMany",
        [at = section](FrameHeader& h) { (h.*at).count = h.frame_bytes; }, text));
    all.push_back(header(
        std::string(name) + "FarTooMany",
        [at = section](FrameHeader& h) { (h.*at).count = 0xffffffffu; }, text));
  }
}

void add_ranges(std::vector<Damage>& all) {
  const std::pair<const char*, Range TaskRecord::*> ranges[] = {
      {"Arguments", &TaskRecord::arguments},
      {"Scalars", &TaskRecord::scalars},
      {"Edges", &TaskRecord::edges},
      {"Waits", &TaskRecord::waits},
      {"Notifies", &TaskRecord::notifies}};
  for (const auto& [name, range] : ranges) {
    const std::string prefix = name;
    all.push_back(
        task(prefix + "FirstTooLarge", 2, [at = range](TaskRecord& t) { t.*at = {100, 0}; }));
    all.push_back(task(prefix + "TooMany", 2, [at = range](TaskRecord& t) { t.*at = {0, 100}; }));
    all.push_back(task(prefix + "SumOverflows", 2,
                       [at = range](TaskRecord& t) { t.*at = {1, 0xffffffffu}; }));
  }
}

std::vector<Damage> all_damages() {
  std::vector<Damage> all = {
      header(
          "Magic", [](FrameHeader& h) { h.magic ^= 1; }, "magic"),
      header(
          "Format", [](FrameHeader& h) { h.format = 9; }, "format 9"),
      header(
          "HeaderBytes", [](FrameHeader& h) { h.header_bytes = 120; }, "header of 120 bytes"),
      header(
          "FrameBytesSmaller", [](FrameHeader& h) { h.frame_bytes -= 64; }, "its header says"),
      header(
          "FrameBytesLarger", [](FrameHeader& h) { h.frame_bytes += 64; }, "its header says"),
      header(
          "Lane", [](FrameHeader& h) { h.lane = 2; },
          "for lane 2 of 4 ranks, but this is lane 1 of 4"),
      header(
          "WorldSize", [](FrameHeader& h) { h.world_size = 5; }, "for lane 1 of 5 ranks"),
      task("KindZero", 0, [](TaskRecord& t) { t.kind = static_cast<TaskKind>(0); }),
      task("KindUnknown", 2, [](TaskRecord& t) { t.kind = static_cast<TaskKind>(6); }),
      task("KindFarAway", 2, [](TaskRecord& t) { t.kind = static_cast<TaskKind>(255); }),
      task("TransferOfOne", 1, [](TaskRecord& t) { t.arguments.count = 1; }),
      task("DownloadOfNone", 2, [](TaskRecord& t) { t.kind = TaskKind::download; }),
      task("CopyOfNone", 2, [](TaskRecord& t) { t.kind = TaskKind::copy; }),
      task("CopySendOfThree", 0,
           [](TaskRecord& t) {
             t.kind = TaskKind::copy_send;
             t.arguments = {0, 3};
           }),
      task("Group", 0, [](TaskRecord& t) { t.group = 1; }),
      entry<std::uint32_t>(
          "EdgeToItself", &FrameHeader::edges, 0, [](std::uint32_t& edge) { edge = 1; },
          "an edge of task 1"),
      entry<std::uint32_t>(
          "EdgeToALaterTask", &FrameHeader::edges, 0, [](std::uint32_t& edge) { edge = 2; },
          "an edge of task 1"),
      entry<std::uint32_t>(
          "EdgeToNowhere", &FrameHeader::edges, 0, [](std::uint32_t& edge) { edge = kNone; },
          "an edge of task 1"),
      argument("Layout", [](ArgumentRecord& a) { a.layout = 2; }),
      argument("LayoutFarAway", [](ArgumentRecord& a) { a.layout = kNone; }),
      argument("TagZero", [](ArgumentRecord& a) { a.tag = static_cast<Tag>(0); }),
      argument("TagUnknown", [](ArgumentRecord& a) { a.tag = static_cast<Tag>(5); }),
      argument("PlaceZero", [](ArgumentRecord& a) { a.place = static_cast<Place>(0); }),
      argument("PlaceUnknown", [](ArgumentRecord& a) { a.place = static_cast<Place>(6); }),
      layout("NoDims", [](LayoutRecord& l) { l.dims = 0; }),
      layout("TooManyDims", [](LayoutRecord& l) { l.dims = 9; }),
      layout("DtypeZero", [](LayoutRecord& l) { l.dtype = static_cast<DType>(0); }),
      layout("DtypeUnknown", [](LayoutRecord& l) { l.dtype = static_cast<DType>(11); }),
      layout("ExtentZero", [](LayoutRecord& l) { l.shape[0] = 0; }),
      layout("ExtentNegative", [](LayoutRecord& l) { l.shape[0] = -5; }),
      layout("StrideZero", [](LayoutRecord& l) { l.strides[0] = 0; }),
      layout("ExtentBytes", [](LayoutRecord& l) { l.extent_bytes -= 8; }),
      layout("UnusedExtent", [](LayoutRecord& l) { l.shape[7] = 1; }),
      layout("Reserved", [](LayoutRecord& l) { l.reserved[5] = 1; }),
      entry<ScalarRecord>(
          "ScalarTypeZero", &FrameHeader::scalars, 0, [](ScalarRecord& s) { s.type = 0; },
          "scalar 0 is"),
      entry<ScalarRecord>(
          "ScalarTypeUnknown", &FrameHeader::scalars, 1, [](ScalarRecord& s) { s.type = 3; },
          "scalar 1 is"),
      entry<WaitRecord>(
          "WaitLane", &FrameHeader::waits, 1, [](WaitRecord& w) { w.lane = kSampleWorld; },
          "wait 1 is"),
      entry<WaitRecord>(
          "WaitForItself", &FrameHeader::waits, 0, [](WaitRecord& w) { w.lane = kSampleLane; },
          "wait 0 is"),
      entry<WaitRecord>(
          "WaitForTooMany", &FrameHeader::waits, 0, [](WaitRecord& w) { w.tasks = 1u << 20; },
          "wait 0 is"),
      entry<WaitRecord>(
          "WaitFlags", &FrameHeader::waits, 1, [](WaitRecord& w) { w.flags = 1; }, "wait 1 is"),
      entry<std::uint32_t>(
          "EdgeForward", &FrameHeader::edges, 0, [](std::uint32_t& edge) { edge = 1 | kNeeds; },
          "an edge of task 1 is"),
      entry<std::uint32_t>(
          "NotifyLane", &FrameHeader::notifies, 0,
          [](std::uint32_t& lane) { lane = kSampleWorld + 1; }, "notify 0 is"),
      entry<std::uint32_t>(
          "MemberLane", &FrameHeader::members, 1, [](std::uint32_t& lane) { lane = kNone; },
          "member 1 is"),
      entry<GroupRecord>(
          "GroupMembers", &FrameHeader::groups, 0, [](GroupRecord& g) { g.members = {1, 2}; },
          "group 0 is"),
      entry<GroupRecord>(
          "GroupMembersOverflow", &FrameHeader::groups, 0,
          [](GroupRecord& g) { g.members = {2, kNone}; }, "group 0 is"),
      entry<GroupRecord>(
          "GroupMemberIndex", &FrameHeader::groups, 0, [](GroupRecord& g) { g.member_index = 2; },
          "group 0 is"),
      entry<GroupRecord>(
          "GroupOfNobody", &FrameHeader::groups, 0, [](GroupRecord& g) { g.members.count = 0; },
          "group 0 is"),
  };
  add_sections(all);
  add_ranges(all);
  return all;
}

class FrameDamage : public ::testing::TestWithParam<Damage> {};

TEST_P(FrameDamage, IsRefusedByName) {
  FrameDecoder decoder;
  ASSERT_TRUE(decode(decoder, make_sample().bytes()).ok());
  Bytes bytes = make_sample().bytes();
  GetParam().apply(bytes);
  const base::Status status = decode(decoder, bytes);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code, ErrorCode::internal);
  EXPECT_NE(status.text.find(GetParam().expected), std::string::npos) << status.text;
  EXPECT_NE(status.text.find("damaged frame"), std::string::npos) << status.text;
  // The decoder is as good as new.
  ASSERT_TRUE(decode(decoder, make_sample().bytes()).ok());
  EXPECT_EQ(decoder.frame().tasks.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(All, FrameDamage, ::testing::ValuesIn(all_damages()),
                         [](const auto& test) { return test.param.name; });

TEST(FrameDecode, RefusesWhatHoldsNoHeader) {
  const Bytes bytes = make_sample().bytes();
  FrameDecoder decoder;
  for (const std::uint32_t size : {0u, 1u, 127u}) {
    const base::Status status = decoder.decode(bytes.data(), size, kSampleLane, kSampleWorld);
    EXPECT_EQ(status.code, ErrorCode::internal);
    EXPECT_NE(status.text.find("do not hold a header"), std::string::npos) << status.text;
  }
}

TEST(FrameDecode, RefusesMoreTasksThanATimelineCounts) {
  FrameDraft draft;
  draft.tasks.extend(base::TimelineValue::kMaxTasks);
  for (TaskRecord& task : draft.tasks) task = TaskRecord();
  Bytes good = encoded(draft, {});
  FrameDecoder decoder;
  EXPECT_TRUE(decode(decoder, good).ok());
  Bytes bytes(good.size() + 64);
  std::memcpy(bytes.data(), good.data(), good.size());
  bytes.header().frame_bytes = bytes.size();
  bytes.header().tasks.count += 1;
  const base::Status status = decode(decoder, bytes);
  EXPECT_EQ(status.code, ErrorCode::internal);
  EXPECT_NE(status.text.find("1048576 tasks, the limit is 1048575"), std::string::npos)
      << status.text;
}

/// All that a decode promises, looked at again.
bool inside(Range range, std::size_t count) {
  return range.first <= count && range.count <= count - range.first;
}
void expect_inside(const Frame& frame) {
  for (const TaskRecord& task : frame.tasks) {
    ASSERT_TRUE(inside(task.arguments, frame.arguments.size()) &&
                inside(task.scalars, frame.scalars.size()) &&
                inside(task.edges, frame.edges.size()) && inside(task.waits, frame.waits.size()) &&
                inside(task.notifies, frame.notifies.size()));
    ASSERT_TRUE(task.group == kNone || task.group < frame.groups.size());
  }
  for (const ArgumentRecord& argument : frame.arguments)
    ASSERT_LT(argument.layout, frame.layouts.size());
  for (const LayoutRecord& layout : frame.layouts) ASSERT_TRUE(tensor::is_valid(layout));
  for (const GroupRecord& group : frame.groups)
    ASSERT_TRUE(inside(group.members, frame.members.size()));
}

template <class Decoder, class Check>
void flip_bytes(const Bytes& good, int rounds, Check check) {
  std::mt19937_64 random(20);
  Decoder decoder;
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    Bytes bytes(good.size());
    std::memcpy(bytes.data(), good.data(), good.size());
    const std::uint64_t flips = 1 + random() % 4;
    for (std::uint64_t i = 0; i < flips; ++i) {
      bytes.data()[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    }
    const base::Status status = decode(decoder, bytes);
    if (status.ok()) {
      check(decoder);
    } else {
      ASSERT_EQ(status.code, ErrorCode::internal);
      ASSERT_FALSE(status.text.empty());
      ++refused;
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(refused, rounds / 10);
  EXPECT_LT(refused, rounds);
}

TEST(FrameDecode, FlippedBytesAreRefusedOrInBounds) {
  flip_bytes<FrameDecoder>(make_sample().bytes(), 50'000,
                           [](const FrameDecoder& decoder) { expect_inside(decoder.frame()); });
}

TEST(SideDecode, FlippedBytesAreRefusedOrInBounds) {
  flip_bytes<SideDecoder>(SideSample().bytes(), 50'000, [](const SideDecoder& decoder) {
    for (const RunWait& wait : decoder.side().waits)
      ASSERT_LT(wait.lane, static_cast<std::uint32_t>(kSampleWorld));
    for (const Patch& patch : decoder.side().patches)
      ASSERT_TRUE(patch.kind == 1 || patch.kind == 2);
    for (const LibraryRecord& library : decoder.side().libraries)
      ASSERT_EQ(decoder.side().path_of(library).size(), library.path.count);
  });
}

TEST(FrameDecode, EveryShorterFrameIsRefused) {
  const Bytes bytes = make_sample().bytes();
  FrameDecoder decoder;
  for (std::uint32_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(decoder.decode(bytes.data(), size, kSampleLane, kSampleWorld).ok()) << size;
  }
}

TEST(SideDecode, EachDamageIsRefused) {
  struct SideDamage {
    const char* expected;
    std::function<void(Bytes&)> apply;
  };
  const auto waits = [](Bytes& bytes, std::size_t i) -> RunWait& {
    return bytes.entry<RunWait>(bytes.side_header().waits, i);
  };
  const auto patches = [](Bytes& bytes, std::size_t i) -> Patch& {
    return bytes.entry<Patch>(bytes.side_header().patches, i);
  };
  const auto libraries = [](Bytes& bytes, std::size_t i) -> LibraryRecord& {
    return bytes.entry<LibraryRecord>(bytes.side_header().libraries, i);
  };
  const SideDamage damages[] = {
      {"magic", [](Bytes& bytes) { bytes.side_header().magic ^= 4; }},
      {"bytes", [](Bytes& bytes) { bytes.side_header().bytes += 64; }},
      {"section", [](Bytes& bytes) { bytes.side_header().changes.offset += 8; }},
      {"section", [](Bytes& bytes) { bytes.side_header().changes.count = kNone; }},
      {"section", [](Bytes& bytes) { bytes.side_header().waits.offset = 0xffffffc0u; }},
      {"section", [](Bytes& bytes) { bytes.side_header().waits.count = 1000; }},
      {"section", [](Bytes& bytes) { bytes.side_header().patches.offset = bytes.size() + 64; }},
      {"section", [](Bytes& bytes) { bytes.side_header().patches.count += 20; }},
      {"section", [](Bytes& bytes) { bytes.side_header().libraries.count = 100; }},
      {"section", [](Bytes& bytes) { bytes.side_header().text.offset = bytes.size() + 64; }},
      {"run wait 1", [&](Bytes& bytes) { waits(bytes, 1).lane = kSampleWorld; }},
      {"run wait 1", [&](Bytes& bytes) { waits(bytes, 0).before = 3; }},
      {"path of library 0", [&](Bytes& bytes) { libraries(bytes, 0).path.count = 0; }},
      {"path of library 1", [&](Bytes& bytes) { libraries(bytes, 1).path.count = 6; }},
      {"path of library 1", [&](Bytes& bytes) { libraries(bytes, 1).path.first = kNone; }},
      {"path of library 0",
       [&](Bytes& bytes) { bytes.entry<char>(bytes.side_header().text, 1) = 0; }},
      {"patch 0", [&](Bytes& bytes) { patches(bytes, 0).kind = 0; }},
      {"patch 1", [&](Bytes& bytes) { patches(bytes, 1).kind = 3; }},
  };
  for (const SideDamage& damage : damages) {
    Bytes bytes = SideSample().bytes();
    damage.apply(bytes);
    SideDecoder decoder;
    const base::Status status = decode(decoder, bytes);
    EXPECT_EQ(status.code, ErrorCode::internal) << damage.expected;
    EXPECT_NE(status.text.find(damage.expected), std::string::npos) << status.text;
    EXPECT_TRUE(decode(decoder, SideSample().bytes()).ok());
  }
  SideDecoder decoder;
  const Bytes bytes = SideSample().bytes();
  const base::Status status = decoder.decode(bytes.data(), 63, kSampleWorld);
  EXPECT_NE(status.text.find("do not hold a header"), std::string::npos) << status.text;
}

TEST(RecordCheck, RefusesWhatIsNotOfThisLaneAndFormat) {
  Record good;
  good.run = 5;
  good.lane = 3;
  EXPECT_TRUE(check_record(good, 3).ok());
  good.kind = RecordKind::stop;
  EXPECT_TRUE(check_record(good, 3).ok());
  const auto refused = [](Record record, std::string_view word) {
    const base::Status status = check_record(record, 3);
    EXPECT_EQ(status.code, ErrorCode::internal);
    EXPECT_NE(status.text.find(word), std::string::npos) << status.text;
  };
  Record bad = good;
  bad.format = 9;
  refused(bad, "format 9");
  bad = good;
  bad.kind = static_cast<RecordKind>(0);
  refused(bad, "kind 0");
  bad.kind = static_cast<RecordKind>(9);
  refused(bad, "kind 9");
  bad = good;
  bad.lane = 2;
  refused(bad, "lane 2");
  bad = good;
  bad.run = base::TimelineValue::kMaxRun + 1;
  refused(bad, "run 17592186044416");
  bad.run = base::TimelineValue::kMaxRun;
  EXPECT_TRUE(check_record(bad, 3).ok());
}

}  // namespace
}  // namespace rankcast::frame
