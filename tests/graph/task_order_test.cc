// Edges against an oracle that knows which bytes each task reads and writes.
#include "graph/task_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tensor/layout.h"

namespace rankcast::graph {
namespace {

constexpr int kRanks = 3;

/// A draft that is written argument by argument: views of u8 buffers.
class Writer {
 public:
  Writer() : draft(kRanks) {}

  struct Access {
    std::uint32_t slot;
    Tag tag;
    std::uint64_t offset = 0;
    std::int64_t bytes = 4;
    std::int64_t stride = 1;
  };

  std::uint32_t layout(std::int64_t bytes, std::int64_t stride) {
    frame::LayoutRecord layout = tensor::contiguous_layout(DType::u8, {bytes});
    layout.strides[0] = stride;
    layout.extent_bytes = static_cast<std::uint64_t>((bytes - 1) * stride + 1);
    for (std::uint32_t i = 0; i < draft.layouts.size(); ++i) {
      if (draft.layouts[i] == layout) return i;
    }
    draft.layouts.push(layout);
    return static_cast<std::uint32_t>(draft.layouts.size() - 1);
  }

  frame::ArgumentRecord record(int rank, const Access& access) {
    frame::ArgumentRecord argument;
    argument.slot = access.slot;
    argument.generation = 1;
    argument.offset = access.offset;
    argument.layout = layout(access.bytes, access.stride);
    argument.tag = access.tag;
    argument.lane = static_cast<std::uint32_t>(rank);
    return argument;
  }

  std::uint32_t launch(int rank, const std::vector<Access>& accesses,
                       const std::vector<std::uint32_t>& afters = {}) {
    frame::FrameDraft& lane = draft.lane(rank);
    frame::TaskRecord task;
    task.arguments = {static_cast<std::uint32_t>(lane.arguments.size()),
                      static_cast<std::uint32_t>(accesses.size())};
    for (const Access& access : accesses) lane.arguments.push(record(rank, access));
    const std::uint32_t number = draft.task_count();
    draft.add_task(rank, task);
    for (const std::uint32_t earlier : afters) draft.afters.push({number, earlier});
    return number;
  }

  /// To `to` of `rank` from `from` of `source`.
  std::uint32_t copy(int rank, Access to, int source, Access from) {
    to.tag = Tag::out;
    from.tag = Tag::in;
    const std::uint32_t number = launch(rank, {to, from});
    if (source == rank) return number;
    draft.lane(rank).arguments.back().place = frame::Place::segment;
    draft.lane(rank).arguments.back().slot = 1000;
    draft.places.back().foreign = static_cast<std::uint32_t>(draft.foreign.size());
    draft.foreign.push({from.offset, from.slot, 1, source});
    return number;
  }

  RunDraft draft;
};

/// What a draft says of one task: earlier task -> needs it.
std::map<std::uint32_t, bool> edges_of(const RunDraft& draft, std::uint32_t number) {
  std::map<std::uint32_t, bool> edges;
  const TaskPlace& place = draft.places[number];
  const frame::FrameDraft& lane = draft.lane(place.rank);
  const frame::TaskRecord& task = lane.tasks[place.ordinal];
  for (std::uint32_t i = 0; i < task.edges.count; ++i) {
    const std::uint32_t edge = lane.edges[task.edges.first + i];
    const std::uint32_t earlier = lane.tasks[edge & ~frame::kNeeds].task;
    EXPECT_TRUE(edges.emplace(earlier, (edge & frame::kNeeds) != 0).second) << "an edge twice";
  }
  for (std::uint32_t i = 0; i < task.waits.count; ++i) {
    const frame::WaitRecord& wait = lane.waits[task.waits.first + i];
    const TaskPlace& earlier = draft.places[wait.task];
    EXPECT_EQ(wait.lane, static_cast<std::uint32_t>(earlier.rank));
    EXPECT_EQ(wait.tasks, earlier.ordinal + 1);
    EXPECT_NE(earlier.rank, place.rank);
    EXPECT_TRUE(edges.emplace(wait.task, wait.flags == frame::kNeeds).second) << "a wait twice";
    const frame::FrameDraft& other = draft.lane(earlier.rank);
    const frame::Range told = other.tasks[earlier.ordinal].notifies;
    const auto lanes = other.notifies.span().subspan(told.first, told.count);
    EXPECT_EQ(std::ranges::count(lanes, static_cast<std::uint32_t>(place.rank)), 1)
        << "task " << wait.task << " does not tell lane " << place.rank;
  }
  return edges;
}

using Edges = std::map<std::uint32_t, bool>;

TEST(TaskOrder, ReadersNeedWritersAndWritersFollowBoth) {
  Writer run;
  const auto write = run.launch(0, {{1, Tag::out}});
  const auto read = run.launch(0, {{1, Tag::in}});
  const auto again = run.launch(0, {{1, Tag::in}});
  const auto change = run.launch(0, {{1, Tag::inout}});
  const auto anew = run.launch(0, {{1, Tag::out}});
  const auto last = run.launch(0, {{1, Tag::in}});
  TaskOrder order;
  ASSERT_FALSE(order.lay_out(run.draft));
  EXPECT_EQ(edges_of(run.draft, write), Edges());
  EXPECT_EQ(edges_of(run.draft, read), (Edges{{write, true}}));
  EXPECT_EQ(edges_of(run.draft, again), (Edges{{write, true}}));
  EXPECT_EQ(edges_of(run.draft, change), (Edges{{write, true}, {read, false}, {again, false}}));
  EXPECT_EQ(edges_of(run.draft, anew), (Edges{{change, false}}));
  EXPECT_EQ(edges_of(run.draft, last), (Edges{{anew, true}}));
}

TEST(TaskOrder, NoDepAndOtherBuffersHaveNoEdges) {
  Writer run;
  run.launch(0, {{1, Tag::out}});
  const auto careless = run.launch(0, {{1, Tag::no_dep}, {2, Tag::out}});
  const auto elsewhere = run.launch(1, {{1, Tag::in}});
  TaskOrder order;
  ASSERT_FALSE(order.lay_out(run.draft));
  EXPECT_EQ(edges_of(run.draft, careless), Edges());
  EXPECT_EQ(edges_of(run.draft, elsewhere), Edges()) << "slot 1 of another rank";
}

TEST(TaskOrder, CopiesReachAcrossLanes) {
  Writer run;
  const auto write = run.launch(0, {{1, Tag::out}});
  const auto copy = run.copy(1, {7, Tag::out}, 0, {1, Tag::in});
  const auto read = run.launch(1, {{7, Tag::in}});
  const auto overwrite = run.launch(0, {{1, Tag::out}});
  const auto far = run.copy(2, {9, Tag::out}, 1, {7, Tag::in});
  TaskOrder order;
  ASSERT_FALSE(order.lay_out(run.draft));
  EXPECT_EQ(edges_of(run.draft, copy), (Edges{{write, true}}));
  EXPECT_EQ(edges_of(run.draft, read), (Edges{{copy, true}}));
  EXPECT_EQ(edges_of(run.draft, overwrite), (Edges{{write, false}, {copy, false}}));
  EXPECT_EQ(edges_of(run.draft, far), (Edges{{copy, true}}));
}

// Eight tasks on the row blocks of one matrix, and eight on its column blocks.
TEST(TaskOrder, BlocksOfOneMatrixAreIndependent) {
  constexpr std::int64_t kSide = 64;
  for (const bool rows : {true, false}) {
    RunDraft draft(1);
    frame::LayoutRecord block = tensor::contiguous_layout(DType::f32, {kSide, kSide});
    block.shape[rows ? 0 : 1] = kSide / 8;
    block.extent_bytes =
        static_cast<std::uint64_t>((block.shape[0] - 1) * kSide + block.shape[1]) * 4;
    draft.layouts.push(block);
    for (std::uint32_t i = 0; i < 8; ++i) {
      frame::ArgumentRecord argument;
      argument.generation = 1;
      argument.offset = std::uint64_t{4} * i * (kSide / 8) * (rows ? kSide : 1);
      argument.tag = Tag::inout;
      draft.lane(0).arguments.push(argument);
      frame::TaskRecord task;
      task.arguments = {i, 1};
      draft.add_task(0, task);
    }
    TaskOrder order;
    ASSERT_FALSE(order.lay_out(draft));
    EXPECT_TRUE(draft.lane(0).edges.empty()) << (rows ? "rows" : "columns");
    // One that crosses them all comes after each.
    frame::ArgumentRecord all;
    all.generation = 1;
    all.tag = Tag::in;
    all.layout = 1;
    draft.layouts.push(tensor::contiguous_layout(DType::f32, {kSide, kSide}));
    draft.lane(0).arguments.push(all);
    frame::TaskRecord task;
    task.arguments = {8, 1};
    draft.add_task(0, task);
    ASSERT_FALSE(order.lay_out(draft));
    EXPECT_EQ(edges_of(draft, 8).size(), 8u);
  }
}

TEST(TaskOrder, AfterNeedsWhateverTheRank) {
  Writer run;
  const auto first = run.launch(0, {});
  const auto second = run.launch(2, {}, {first});
  const auto third = run.launch(2, {{3, Tag::out}}, {first, second, second});
  TaskOrder order;
  ASSERT_FALSE(order.lay_out(run.draft));
  EXPECT_EQ(edges_of(run.draft, second), (Edges{{first, true}}));
  EXPECT_EQ(edges_of(run.draft, third), (Edges{{first, true}, {second, true}}));
}

TEST(TaskOrder, OneTaskMayNotWriteWhatItTouchesTwice) {
  for (const auto& [first, second] : std::vector<std::pair<Tag, Tag>>{
           {Tag::in, Tag::out}, {Tag::out, Tag::in}, {Tag::out, Tag::out}, {Tag::inout, Tag::in}}) {
    Writer run;
    run.launch(0, {{4, Tag::out}});
    const auto bad = run.launch(0, {{5, Tag::in}, {1, first, 0}, {1, second, 3}});
    TaskOrder order;
    const auto conflict = order.lay_out(run.draft);
    ASSERT_TRUE(conflict);
    EXPECT_EQ(conflict->task, bad);
    EXPECT_EQ(conflict->first, 1u);
    EXPECT_EQ(conflict->second, 2u);
  }
  Writer run;
  run.launch(0, {{1, Tag::in}, {1, Tag::in}});
  run.launch(0, {{1, Tag::out}, {1, Tag::no_dep}});
  run.launch(0, {{1, Tag::out, 0}, {1, Tag::in, 4}});
  TaskOrder order;
  EXPECT_FALSE(order.lay_out(run.draft));
}

TEST(TaskOrder, HoldsWhileBuffersAreSharedAsTheyWere) {
  const auto fill = [](Writer& run, std::uint32_t a, std::uint32_t b, std::uint64_t offset) {
    run.launch(0, {{a, Tag::out, offset}});
    run.launch(0, {{b, Tag::in, offset}, {9, Tag::out}});
  };
  Writer first;
  fill(first, 1, 1, 0);
  TaskOrder order;
  ASSERT_FALSE(order.lay_out(first.draft));
  const auto holds = [&](std::uint32_t a, std::uint32_t b, std::uint64_t offset) {
    Writer other;
    fill(other, a, b, offset);
    return order.holds(other.draft);
  };
  EXPECT_TRUE(holds(1, 1, 0));
  EXPECT_TRUE(holds(5, 5, 0)) << "another buffer in both places";
  EXPECT_FALSE(holds(1, 2, 0)) << "no longer shared";
  EXPECT_FALSE(holds(9, 9, 0)) << "shared with the output, too";
  EXPECT_FALSE(holds(1, 1, 8)) << "other places in a buffer that is shared";
  Writer apart;
  fill(apart, 1, 2, 0);
  ASSERT_FALSE(order.lay_out(apart.draft));
  EXPECT_TRUE(holds(3, 4, 16)) << "other places in buffers that nobody shares";
  EXPECT_FALSE(holds(3, 3, 0));
}

/// Tasks as sets of bytes.
struct Bytes {
  std::set<std::pair<std::uint64_t, std::uint64_t>> read, written;  // (buffer, byte)
};

bool meet(const std::set<std::pair<std::uint64_t, std::uint64_t>>& a,
          const std::set<std::pair<std::uint64_t, std::uint64_t>>& b) {
  return std::ranges::any_of(a, [&](const auto& byte) { return b.contains(byte); });
}

// Of random programs: every hazard is kept by a path of edges, every edge is a hazard, a reader
// needs the last writer of each byte that it sees, and nobody whose bytes it does not read.
TEST(TaskOrder, RandomProgramsAgainstSetsOfBytes) {
  std::mt19937 random(20261201);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int round = 0; round < 400; ++round) {
    Writer run;
    std::vector<Bytes> tasks;
    std::vector<std::vector<std::uint32_t>> afters;
    const std::uint32_t count = 1 + below(14);
    const auto add = [](Bytes& task, std::uint64_t buffer, const Writer::Access& access) {
      for (std::int64_t i = 0; i < access.bytes; ++i) {
        const std::pair byte(buffer, access.offset + static_cast<std::uint64_t>(i * access.stride));
        const auto bits = static_cast<std::uint32_t>(access.tag);
        if (access.tag == Tag::no_dep) continue;
        if ((bits & 1) != 0) task.read.insert(byte);
        if ((bits & 2) != 0) task.written.insert(byte);
      }
    };
    const auto random_access = [&](std::uint32_t slot, Tag tag) {
      return Writer::Access{slot, tag, below(6), 1 + below(6), 1};
    };
    for (std::uint32_t i = 0; i < count; ++i) {
      Bytes& task = tasks.emplace_back();
      const auto rank = static_cast<int>(below(kRanks));
      afters.emplace_back();
      if (below(4) == 0) {
        const auto source = static_cast<int>(below(kRanks));
        Writer::Access to = random_access(below(2), Tag::out);
        Writer::Access from = random_access(2 + below(2), Tag::in);
        from.bytes = to.bytes;
        add(task, static_cast<std::uint64_t>(rank) * 100 + to.slot, to);
        add(task, static_cast<std::uint64_t>(source) * 100 + from.slot, from);
        run.copy(rank, to, source, from);
        continue;
      }
      std::vector<Writer::Access> accesses;
      for (std::uint32_t slot = 0; slot < 4; ++slot) {
        if (below(2) == 0) continue;
        accesses.push_back(random_access(slot, static_cast<Tag>(1 + below(4))));
        add(task, static_cast<std::uint64_t>(rank) * 100 + slot, accesses.back());
      }
      if (i != 0 && below(5) == 0) afters.back().push_back(below(i));
      run.launch(rank, accesses, afters.back());
    }
    TaskOrder order;
    ASSERT_FALSE(order.lay_out(run.draft));

    std::vector<std::set<std::uint32_t>> before(count);
    for (std::uint32_t later = 0; later < count; ++later) {
      const Edges edges = edges_of(run.draft, later);
      for (const auto& [earlier, needs] : edges) {
        before[later].insert(earlier);
        before[later].insert(before[earlier].begin(), before[earlier].end());
        const bool after = std::ranges::count(afters[later], earlier) != 0;
        EXPECT_TRUE(after || meet(tasks[earlier].written, tasks[later].read) ||
                    meet(tasks[earlier].read, tasks[later].written) ||
                    meet(tasks[earlier].written, tasks[later].written))
            << "a false edge " << earlier << " -> " << later;
        EXPECT_TRUE(!needs || after || meet(tasks[earlier].written, tasks[later].read))
            << earlier << " -> " << later;
        EXPECT_TRUE(needs || !after) << earlier << " -> " << later;
      }
      for (std::uint32_t earlier = 0; earlier < later; ++earlier) {
        const bool hazard = meet(tasks[earlier].written, tasks[later].read) ||
                            meet(tasks[earlier].read, tasks[later].written) ||
                            meet(tasks[earlier].written, tasks[later].written);
        if (hazard) {
          EXPECT_TRUE(before[later].contains(earlier))
              << "a lost edge " << earlier << " -> " << later << ", round " << round;
        }
      }
      // The last writer of each byte that the task reads.
      for (const auto& byte : tasks[later].read) {
        for (std::uint32_t earlier = later; earlier-- > 0;) {
          if (!tasks[earlier].written.contains(byte)) continue;
          const auto edge = edges.find(earlier);
          EXPECT_TRUE(edge != edges.end() && edge->second) << earlier << " -> " << later;
          break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rankcast::graph
