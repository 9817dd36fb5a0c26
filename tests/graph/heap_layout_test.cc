// Where temporaries lie: never two living ones on one byte, dead ones' bytes used again, and then
// whoever uses them comes after all who did.
#include "graph/heap_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "graph/task_order.h"
#include "tensor/layout.h"

namespace rankcast::graph {
namespace {

class Writer {
 public:
  explicit Writer(int ranks) : draft(ranks) {
    draft.layouts.push(tensor::contiguous_layout(DType::u8, {1}));
  }

  std::uint32_t temporary(int rank, std::uint64_t bytes) {
    Temporary temporary;
    temporary.bytes = bytes;
    temporary.rank = rank;
    draft.temporaries.push(temporary);
    return static_cast<std::uint32_t>(draft.temporaries.size() - 1);
  }

  struct Access {
    std::uint32_t temporary;
    Tag tag;
    std::uint64_t offset = 0;
  };

  /// On the rank of the first.
  std::uint32_t launch(const std::vector<Access>& accesses) {
    const int rank = draft.temporaries[accesses.front().temporary].rank;
    frame::FrameDraft& lane = draft.lane(rank);
    frame::TaskRecord task;
    task.arguments = {static_cast<std::uint32_t>(lane.arguments.size()),
                      static_cast<std::uint32_t>(accesses.size())};
    for (const Access& access : accesses) {
      frame::ArgumentRecord argument;
      argument.place = frame::Place::heap;
      argument.slot = access.temporary;
      argument.offset = draft.temporaries[access.temporary].offset + access.offset;
      argument.tag = access.tag;
      argument.lane = static_cast<std::uint32_t>(draft.temporaries[access.temporary].rank);
      lane.arguments.push(argument);
    }
    draft.add_task(rank, task);
    return draft.task_count() - 1;
  }

  /// From a temporary of another rank.
  std::uint32_t copy(std::uint32_t to, std::uint32_t from) {
    const std::uint32_t task = launch({{to, Tag::out}, {from, Tag::in}});
    draft.places.back().foreign = static_cast<std::uint32_t>(draft.foreign.size());
    draft.foreign.push({0, from, 0, draft.temporaries[from].rank});
    return task;
  }

  std::uint64_t offset(std::uint32_t temporary) const {
    return draft.temporaries[temporary].offset;
  }

  RunDraft draft;
};

TEST(HeapLayout, DeadStorageIsUsedAgain) {
  Writer run(1);
  const auto a = run.temporary(0, 256);
  const auto b = run.temporary(0, 128);
  const auto c = run.temporary(0, 256);
  const auto d = run.temporary(0, 512);
  run.launch({{a, Tag::out}});
  run.launch({{a, Tag::in}, {b, Tag::out}});
  run.launch({{b, Tag::in}, {c, Tag::out, 128}});
  run.launch({{c, Tag::in}, {d, Tag::out}});
  HeapLayout layout;
  ASSERT_FALSE(layout.lay_out(run.draft));
  EXPECT_EQ(run.offset(a), 0u);
  EXPECT_EQ(run.offset(b), 256u);
  EXPECT_EQ(run.offset(c), 0u) << "the place of a, which is dead";
  EXPECT_EQ(run.offset(d), 256u) << "the place of b, and the block grows by what is missing";
  EXPECT_EQ(run.draft.lane(0).heap_bytes, 768u);
  EXPECT_EQ(run.draft.lane(0).arguments[4].offset, 128u) << "of c, in the block";
}

TEST(HeapLayout, TheSmallestGapThatHoldsIt) {
  Writer run(1);
  std::vector<std::uint32_t> all;
  for (const std::uint64_t bytes : {512u, 128u, 256u, 128u}) all.push_back(run.temporary(0, bytes));
  const auto late = run.temporary(0, 256);
  run.launch({{all[0], Tag::out}, {all[1], Tag::out}, {all[2], Tag::out}, {all[3], Tag::out}});
  run.launch({{all[1], Tag::in}, {all[3], Tag::in}, {late, Tag::no_dep}});
  HeapLayout layout;
  ASSERT_FALSE(layout.lay_out(run.draft));
  EXPECT_EQ(run.offset(late), run.offset(all[2]));
  EXPECT_EQ(run.draft.lane(0).heap_bytes, 1024u);
}

TEST(HeapLayout, ReadBeforeItIsWritten) {
  for (const Tag tag : {Tag::in, Tag::inout}) {
    Writer run(1);
    const auto a = run.temporary(0, 128);
    const auto b = run.temporary(0, 128);
    run.launch({{a, Tag::out}});
    const auto bad = run.launch({{a, Tag::in}, {b, tag}});
    HeapLayout layout;
    const auto unwritten = layout.lay_out(run.draft);
    ASSERT_TRUE(unwritten);
    EXPECT_EQ(unwritten->task, bad);
    EXPECT_EQ(unwritten->argument, 1u);
  }
}

TEST(HeapLayout, AnewAfterTheDraftHasGrown) {
  Writer run(1);
  const auto a = run.temporary(0, 256);
  const auto b = run.temporary(0, 128);
  run.launch({{a, Tag::out}});
  run.launch({{b, Tag::out, 64}});
  HeapLayout layout;
  ASSERT_FALSE(layout.lay_out(run.draft));
  EXPECT_EQ(run.offset(b), 0u);
  run.launch({{a, Tag::in}});  // a lives on
  ASSERT_FALSE(layout.lay_out(run.draft));
  EXPECT_EQ(run.offset(b), 256u);
  EXPECT_EQ(run.draft.lane(0).arguments[1].offset, 256u + 64);
  run.draft.shrink(2);
  ASSERT_FALSE(layout.lay_out(run.draft));
  EXPECT_EQ(run.draft.lane(0).arguments[1].offset, 64u);
  EXPECT_EQ(run.draft.lane(0).heap_bytes, 256u);
}

// Which tasks come before each, by lane edges and waits, through any number of them.
std::vector<std::set<std::uint32_t>> earlier_tasks(const RunDraft& draft) {
  std::vector<std::set<std::uint32_t>> before(draft.task_count());
  for (std::uint32_t number = 0; number < draft.task_count(); ++number) {
    const TaskPlace& place = draft.places[number];
    const frame::FrameDraft& lane = draft.lane(place.rank);
    const frame::TaskRecord& task = lane.tasks[place.ordinal];
    std::vector<std::uint32_t> direct;
    for (std::uint32_t i = 0; i < task.edges.count; ++i) {
      direct.push_back(lane.tasks[lane.edges[task.edges.first + i] & ~frame::kNeeds].task);
    }
    for (std::uint32_t i = 0; i < task.waits.count; ++i) {
      direct.push_back(lane.waits[task.waits.first + i].task);
    }
    for (const std::uint32_t earlier : direct) {
      before[number].insert(earlier);
      before[number].insert(before[earlier].begin(), before[earlier].end());
    }
  }
  return before;
}

TEST(HeapLayout, WhoeverUsesAPlaceAgainComesAfterAllWhoDid) {
  Writer run(2);
  const auto a = run.temporary(0, 256);
  const auto far = run.temporary(1, 256);
  const auto b = run.temporary(0, 256);
  const auto write = run.launch({{a, Tag::out}});
  const auto read = run.copy(far, a);
  const auto careless = run.launch({{a, Tag::no_dep}});
  const auto again = run.launch({{b, Tag::out}});
  HeapLayout layout;
  ASSERT_FALSE(layout.lay_out(run.draft));
  ASSERT_EQ(run.offset(a), run.offset(b));
  TaskOrder order;
  ASSERT_FALSE(order.lay_out(run.draft));
  EXPECT_EQ(earlier_tasks(run.draft)[again], (std::set{write, read, careless}));
  const frame::TaskRecord& task = run.draft.task(again);
  const frame::FrameDraft& lane = run.draft.lane(0);
  for (std::uint32_t i = 0; i < task.edges.count; ++i) {
    EXPECT_EQ(lane.edges[task.edges.first + i] & frame::kNeeds, 0u) << "a failure does not cross";
  }
  ASSERT_EQ(task.waits.count, 1u);
  EXPECT_EQ(lane.waits[task.waits.first].flags, 0u);
}

TEST(HeapLayout, RandomProgramsShareNoLivingByte) {
  std::mt19937 random(20261207);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::uint64_t taken = 0;
  std::uint64_t needed = 0;
  for (int round = 0; round < 300; ++round) {
    Writer run(2);
    const std::uint32_t count = 1 + below(20);
    for (std::uint32_t i = 0; i < count; ++i) {
      run.temporary(static_cast<int>(below(2)), kTemporaryAlignment * (1 + below(6)));
    }
    std::vector<bool> written(count);
    for (std::uint32_t task = 0; task < 2 * count; ++task) {
      // A window that moves, so that temporaries die.
      const std::uint32_t first = task / 2;
      const auto number = first + below(std::min(3u, count - first));
      std::vector<Writer::Access> accesses{
          {number, written[number] ? static_cast<Tag>(1 + below(4)) : Tag::out}};
      written[number] = true;
      const auto other = first + below(std::min(3u, count - first));
      if (other != number && written[other] &&
          run.draft.temporaries[other].rank == run.draft.temporaries[number].rank) {
        accesses.push_back({other, Tag::in});
      }
      run.launch(accesses);
    }
    HeapLayout layout;
    ASSERT_FALSE(layout.lay_out(run.draft));
    TaskOrder order;
    ASSERT_FALSE(order.lay_out(run.draft));
    const auto before = earlier_tasks(run.draft);

    std::vector<std::set<std::uint32_t>> users(count);
    for (std::uint32_t task = 0; task < run.draft.task_count(); ++task) {
      const frame::Range range = run.draft.task(task).arguments;
      for (std::uint32_t i = 0; i < range.count; ++i) {
        users[run.draft.lane(run.draft.places[task].rank).arguments[range.first + i].slot].insert(
            task);
      }
    }
    for (std::uint32_t a = 0; a < count; ++a) {
      const Temporary& one = run.draft.temporaries[a];
      if (users[a].empty()) continue;
      EXPECT_EQ(one.offset % kTemporaryAlignment, 0u);
      EXPECT_LE(one.offset + one.bytes, run.draft.lane(one.rank).heap_bytes);
      needed += one.bytes;
      for (std::uint32_t b = 0; b < count; ++b) {
        const Temporary& other = run.draft.temporaries[b];
        if (users[b].empty() || *users[a].rbegin() > *users[b].begin() || a == b) continue;
        const bool meet = one.rank == other.rank && one.offset < other.offset + other.bytes &&
                          other.offset < one.offset + one.bytes;
        if (!meet) continue;
        EXPECT_LT(*users[a].rbegin(), *users[b].begin()) << "both alive";
        for (const std::uint32_t later : users[b]) {
          for (const std::uint32_t earlier : users[a]) {
            EXPECT_TRUE(before[later].contains(earlier)) << earlier << " -> " << later;
          }
        }
      }
      for (std::uint32_t b = 0; b < a; ++b) {
        const Temporary& other = run.draft.temporaries[b];
        if (users[b].empty() || one.rank != other.rank) continue;
        const bool together =
            *users[a].begin() <= *users[b].rbegin() && *users[b].begin() <= *users[a].rbegin();
        EXPECT_FALSE(together && one.offset < other.offset + other.bytes &&
                     other.offset < one.offset + one.bytes);
      }
    }
    taken += run.draft.lanes[0].heap_bytes + run.draft.lanes[1].heap_bytes;
  }
  EXPECT_LT(taken * 2, needed) << "bytes are used again";
}

}  // namespace
}  // namespace rankcast::graph
