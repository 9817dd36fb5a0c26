// Groups: tasks of several ranks that start together or not at all, and meet.
//
// tests: src/rank/task_groups.cc
// tests: src/mesh/group_blocks.h
// tests: src/kernels/all_sum.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <random>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::Each;

/// A group of rankcast.all_sum over the shards of two stacks on `ranks`.
TaskGroup all_sum(Orchestrator& orch, const std::vector<int>& ranks, const ArgumentRef& in,
                  const ArgumentRef& out) {
  std::vector<TaskArgs> arguments;
  for (const int rank : ranks) {
    arguments.emplace_back();
    arguments.back().in(in.shard_on(rank)).out(out.shard_on(rank));
  }
  return orch.submit_group("rankcast.all_sum", ranks, arguments);
}

class MeshGroupOnEachLink : public OnEachLink {
 protected:
  static constexpr int kRanks = 8;
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-7";
    options.link = GetParam();
    options.max_in_flight = 4;
    return Mesh::open(options);
  }
  static const std::vector<int>& everyone() {
    static const std::vector<int> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
    return ranks;
  }

  Mesh mesh_ = open();
  StackedDeviceTensor in_ = mesh_.alloc_stacked({kRanks, 16}, DType::f32);
  StackedDeviceTensor out_ = mesh_.alloc_stacked({kRanks, 16}, DType::f32);
};

TEST_P(MeshGroupOnEachLink, MembersMeet) {
  const Program program("all", [](Orchestrator& orch, const Arguments& args) {
    all_sum(orch, everyone(), args[0], args[1]);
  });
  for (int round = 0; round < 100; ++round) {
    const std::vector<float> values(kRanks * 16, static_cast<float>(round));
    mesh_.upload(in_, HostView(values.data(), {kRanks, 16}));
    mesh_.submit(program, {in_, out_}).wait();
    ASSERT_THAT(values_of(mesh_, out_), Each(static_cast<float>(8 * round)));
  }
}

TEST_P(MeshGroupOnEachLink, AGroupAmongManySingles) {
  const std::vector<float> ones(kRanks * 16, 1);
  mesh_.upload(in_, HostView(ones.data(), {kRanks, 16}));
  const Program program("mixed", [](Orchestrator& orch, const Arguments& args) {
    for (int i = 0; i < 40; ++i) {
      for (int rank = 0; rank < orch.world_size(); ++rank) {
        if (i % 7 == rank % 7) {
          orch.submit("rankcast.fill", rank, TaskArgs{}.out(args[0].shard_on(rank)).scalar(i));
        }
      }
      if (i == 20) {
        for (int rank = 0; rank < orch.world_size(); ++rank)
          orch.submit("rankcast.fill", rank, TaskArgs{}.out(args[0].shard_on(rank)).scalar(3));
        all_sum(orch, everyone(), args[0], args[1]);
      }
    }
  });
  for (int round = 0; round < 20; ++round) {
    mesh_.submit(program, {in_, out_}).wait();
    ASSERT_THAT(values_of(mesh_, out_), Each(24.f));
  }
}

// Members that cross: each rank is in both, and several runs are in flight.
TEST_P(MeshGroupOnEachLink, TwoGroupsWithCrossingMembers) {
  const StackedDeviceTensor more = mesh_.alloc_stacked({kRanks, 16}, DType::f32);
  const std::vector<float> ones(kRanks * 16, 1);
  mesh_.upload(in_, HostView(ones.data(), {kRanks, 16}));
  const std::vector<int> odd = {1, 3, 5, 7, 0, 2};
  const std::vector<int> low = {0, 1, 2, 3, 4, 5};
  const Program one("one", [&](Orchestrator& orch, const Arguments& args) {
    all_sum(orch, odd, args[0], args[1]);
    all_sum(orch, low, args[0], args[2]);
  });
  const Program other("other", [&](Orchestrator& orch, const Arguments& args) {
    all_sum(orch, low, args[0], args[2]);
    all_sum(orch, odd, args[0], args[1]);
  });
  std::vector<rankcast::Run> runs;
  for (int round = 0; round < 200; ++round) {
    runs.push_back(mesh_.submit(round % 3 == 0 ? other : one, {in_, out_, more}));
    if (runs.size() > 3) {
      runs.front().wait();
      runs.erase(runs.begin());
    }
  }
  for (const rankcast::Run& run : runs) run.wait();
  EXPECT_THAT(values_of(mesh_, out_.shard_on(7)), Each(6.f));
  EXPECT_THAT(values_of(mesh_, more.shard_on(0)), Each(6.f));
}

TEST_P(MeshGroupOnEachLink, AGroupIsRefusedAsATaskIs) {
  const auto submit = [&](const std::vector<int>& ranks, std::size_t arguments) {
    mesh_.submit(Program("bad",
                         [&](Orchestrator& orch, const Arguments& args) {
                           std::vector<TaskArgs> tasks(arguments);
                           for (std::size_t i = 0; i < arguments; ++i) {
                             tasks[i].in(args[0][static_cast<int>(i)]);
                             tasks[i].out(args[1][static_cast<int>(i)]);
                           }
                           orch.submit_group("rankcast.all_sum", ranks, tasks);
                         }),
                 {in_, out_});
  };
  expect_error(ErrorCode::invalid_argument, {"'rankcast.all_sum'", "0 ranks"},
               [&] { submit({}, 0); });
  expect_error(ErrorCode::invalid_argument, {"2 ranks and 1 arguments"},
               [&] { submit({0, 1}, 1); });
  expect_error(ErrorCode::invalid_argument, {"rank 0 twice"}, [&] { submit({0, 0}, 2); });
  expect_error(ErrorCode::invalid_argument, {"rank 8", "0 to 7"}, [&] { submit({0, 8}, 2); });
  expect_error(ErrorCode::wrong_rank, {"task 1", "rank 2"}, [&] { submit({0, 2}, 2); });
  submit({0, 1}, 2);
  // No group at all.
  expect_error(ErrorCode::task_failed, {"submit_group"}, [&] {
    mesh_
        .submit(Program("single",
                        [](Orchestrator& orch, const Arguments& args) {
                          orch.submit("rankcast.all_sum", 0,
                                      TaskArgs{}.in(args[0][0]).out(args[1][0]));
                        }),
                {in_, out_})
        .wait();
  });
}

TEST_P(MeshGroupOnEachLink, MoreSharedMemoryThanThereIs) {
  const StackedDeviceTensor in = mesh_.alloc_stacked({2, 20'000}, DType::f32);
  const StackedDeviceTensor out = mesh_.alloc_stacked({2, 20'000}, DType::f32);
  for (int round = 0; round < 2; ++round) {
    expect_error(ErrorCode::out_of_memory,
                 {"wants 80064 bytes", "gives 65536", "MeshOptions::group_shared_bytes"}, [&] {
                   mesh_
                       .submit(Program("large",
                                       [](Orchestrator& orch, const Arguments& args) {
                                         all_sum(orch, {0, 1}, args[0], args[1]);
                                       }),
                               {in, out})
                       .wait();
                 });
  }
}

// Members stop anywhere between their meetings, and the next group of the kind meets all the same.
TEST_P(MeshGroupOnEachLink, AGroupAfterOneThatWasCancelled) {
  const StackedDeviceTensor in = mesh_.alloc_stacked({kRanks, 8'000}, DType::f32);
  const StackedDeviceTensor out = mesh_.alloc_stacked({kRanks, 8'000}, DType::f32);
  const std::vector<float> ones(kRanks * 8'000, 1);
  mesh_.upload(in, HostView(ones.data(), {kRanks, 8'000}));
  const Program program("all", [](Orchestrator& orch, const Arguments& args) {
    all_sum(orch, everyone(), args[0], args[1]);
  });
  std::mt19937 random(4);
  int cancelled = 0;
  for (int round = 0; round < 100; ++round) {
    const rankcast::Run run = mesh_.submit(program, {in, out});
    for (auto turns = random() % 300; turns > 0; --turns) std::this_thread::yield();
    run.cancel();
    try {
      ASSERT_TRUE(run.wait_for(kHangLimit));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::cancelled) << error.what();
      ++cancelled;
    }
    const rankcast::Run next = mesh_.submit(program, {in, out});
    ASSERT_TRUE(next.wait_for(kHangLimit)) << "round " << round;
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_THAT(values_of(mesh_, out), Each(8.f));
}

TEST_P(MeshGroupOnEachLink, MembersOfOtherShapesAreToldSo) {
  const DeviceTensor four = mesh_.alloc(0, {4}, DType::f32);
  const DeviceTensor eight = mesh_.alloc(1, {8}, DType::f32);
  const DeviceTensor sums = mesh_.alloc(0, {4}, DType::f32);
  const DeviceTensor more = mesh_.alloc(1, {8}, DType::f32);
  const std::vector<float> ones(8, 1);
  mesh_.upload(four, HostView(ones.data(), {4}));
  mesh_.upload(eight, HostView(ones.data(), {8}));
  for (int round = 0; round < 3; ++round) {
    expect_error(ErrorCode::task_failed, {"'rankcast.all_sum'", "one shape and one dtype"}, [&] {
      mesh_
          .submit(Program("unlike",
                          [](Orchestrator& orch, const Arguments& args) {
                            std::array<TaskArgs, 2> tasks;
                            tasks[0].in(args[0]).out(args[2]);
                            tasks[1].in(args[1]).out(args[3]);
                            orch.submit_group("rankcast.all_sum", std::array{0, 1}, tasks);
                          }),
                  {four, eight, sums, more})
          .wait();
    });
  }
}

TEST_P(MeshGroupOnEachLink, NoneWaitsForADeviceThatComputesNothing) {
  MeshOptions options;
  options.devices = "cpu:0-1,null:0-1";
  options.link = GetParam();
  Mesh mixed = Mesh::open(options);
  const StackedDeviceTensor in = mixed.alloc_stacked({4, 4}, DType::f32);
  const StackedDeviceTensor out = mixed.alloc_stacked({4, 4}, DType::f32);
  const auto submit = [&](const std::vector<int>& ranks) {
    mixed
        .submit(Program("mixed",
                        [&](Orchestrator& orch, const Arguments& args) {
                          all_sum(orch, ranks, args[0], args[1]);
                        }),
                {in, out})
        .wait();
  };
  expect_error(ErrorCode::unsupported, {"ranks 0 and 2", "rank 2 computes nothing"},
               [&] { submit({0, 1, 2}); });
  expect_error(ErrorCode::unsupported, {"ranks 3 and 1", "rank 3 computes nothing"},
               [&] { submit({3, 1}); });
  submit({0, 1});
  submit({2, 3});
}

INSTANTIATE_TEST_SUITE_P(Links, MeshGroupOnEachLink, all_links(), name_of_link);

class MeshGroup : public ::testing::Test {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-3";
    options.max_in_flight = 4;
    return Mesh::open(options);
  }

  MeshGroup() {
    mesh_.register_kernel("test.fail", [](const KernelCall&) { throw std::runtime_error("no"); });
    // Meets nobody; counts who ran.
    mesh_.register_kernel("test.member", [this](const KernelCall& call) {
      EXPECT_EQ(call.context.member_count, 4);
      EXPECT_EQ(call.context.members[call.context.member_index], call.context.rank);
      ran_.fetch_add(1);
    });
    // Waits for peers that never come, unless it is the one that fails.
    mesh_.register_kernel("test.stuck", [this](const KernelCall& call) {
      ran_.fetch_add(1);
      if (call.context.rank == 2 && fail_) throw std::runtime_error("rank 2 is at fault");
      const std::atomic_ref abort(*const_cast<std::uint32_t*>(call.context.abort_word));
      while (abort.load() == 0) std::this_thread::yield();
      throw std::runtime_error("nobody came");
    });
  }

  static void group_of_four(Orchestrator& orch, const std::string& kernel,
                            const Task* after = nullptr, int after_on = 0) {
    std::array<TaskArgs, 4> arguments;
    if (after != nullptr) arguments[static_cast<std::size_t>(after_on)].after(*after);
    orch.submit_group(kernel, std::array{0, 1, 2, 3}, arguments);
  }

  std::atomic<int> ran_{0};
  bool fail_ = true;
  Mesh mesh_ = open();
};

TEST_F(MeshGroup, NoneStartsWhenOneMayNot) {
  for (int member = 0; member < 4; ++member) {
    const rankcast::Run run = mesh_.submit(
        Program("poisoned",
                [&](Orchestrator& orch, const Arguments&) {
                  const Task failing = orch.submit("test.fail", 3 - member, TaskArgs{});
                  group_of_four(orch, "test.member", &failing, member);
                }),
        {});
    expect_error(ErrorCode::task_failed, {"task 0 ('test.fail')"}, [&] { run.wait(); });
  }
  EXPECT_EQ(ran_.load(), 0);
  mesh_
      .submit(Program("good", [](Orchestrator& orch,
                                 const Arguments&) { group_of_four(orch, "test.member"); }),
              {})
      .wait();
  EXPECT_EQ(ran_.load(), 4);
}

TEST_F(MeshGroup, NoneStartsWhenOneReadsWhatIsUndefined) {
  const StackedDeviceTensor stack = mesh_.alloc_stacked({4, 1}, DType::f32);
  const rankcast::Run spoil =
      mesh_.submit(Program("spoil",
                           [](Orchestrator& orch, const Arguments& args) {
                             orch.submit("test.fail", 2, TaskArgs{}.out(args[0].shard_on(2)));
                           }),
                   {stack});
  expect_error(ErrorCode::task_failed, {}, [&] { spoil.wait(); });
  const rankcast::Run run =
      mesh_.submit(Program("reads",
                           [](Orchestrator& orch, const Arguments& args) {
                             std::array<TaskArgs, 4> tasks;
                             for (int i = 0; i < 4; ++i)
                               tasks[static_cast<std::size_t>(i)].in(args[0].shard_on(i));
                             orch.submit_group("test.member", std::array{0, 1, 2, 3}, tasks);
                           }),
                   {stack});
  expect_error(ErrorCode::undefined_contents, {"task 2", "rank 2"}, [&] { run.wait(); });
  EXPECT_EQ(ran_.load(), 0);
}

TEST_F(MeshGroup, AMemberThatFailsLetsTheOthersGo) {
  const rankcast::Run run = mesh_.submit(
      Program("stuck",
              [](Orchestrator& orch, const Arguments&) { group_of_four(orch, "test.stuck"); }),
      {});
  expect_error(ErrorCode::task_failed, {"task 2 ('test.stuck') on rank 2", "rank 2 is at fault"},
               [&] { run.wait(); });
  EXPECT_EQ(ran_.load(), 4);
}

TEST_F(MeshGroup, CancelEndsAGroupThatRunsAndOneThatDoesNot) {
  fail_ = false;
  const rankcast::Run run = mesh_.submit(Program("stuck",
                                                 [](Orchestrator& orch, const Arguments&) {
                                                   group_of_four(orch, "test.stuck");
                                                   group_of_four(orch, "test.member");
                                                 }),
                                         {});
  ASSERT_TRUE(eventually([&] { return ran_.load() == 4; }));
  run.cancel();
  expect_error(ErrorCode::cancelled, {"test.stuck"}, [&] { run.wait(); });
  EXPECT_EQ(ran_.load(), 4) << "the second group never ran";

  const auto gate = add_gate(mesh_);
  const OpenAtEnd open_at_end(gate);
  const rankcast::Run held = mesh_.submit(Program("held",
                                                  [](Orchestrator& orch, const Arguments&) {
                                                    orch.submit("test.gate", 1, TaskArgs{});
                                                    group_of_four(orch, "test.member");
                                                  }),
                                          {});
  gate->wait_entered(1);
  held.cancel();
  gate->open();
  expect_error(ErrorCode::cancelled, {"test.member"}, [&] { held.wait(); });
  EXPECT_EQ(ran_.load(), 4);
}

// All members or none, whatever is cancelled when.
TEST_F(MeshGroup, CancelAtAnyTimeRunsAllMembersOrNone) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    ran_.store(0);
    const rankcast::Run run = mesh_.submit(
        Program("round",
                [](Orchestrator& orch, const Arguments&) { group_of_four(orch, "test.member"); }),
        {});
    for (auto spins = random() % 40; spins-- > 0;) std::this_thread::yield();
    run.cancel();
    try {
      run.wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled) << error.what();
    }
    const int ran = ran_.load();
    ASSERT_TRUE(ran == 0 || ran == 4) << ran << " members ran";
  }
}

/// Two groups whose members cross, over and over, while runs are cancelled and ranks die. Each
/// member counts that it ran; all members of a group did or none, but for those of ranks that died.
class ThoroughMeshGroup : public OnEachLink {
 protected:
  static constexpr int kRanks = 4;
  static constexpr int kSeed = 20261201;

  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-3";
    options.link = GetParam();
    options.max_in_flight = 4;
    return Mesh::open(options);
  }

  ThoroughMeshGroup() {
    mesh_.load_kernels(RANKCAST_TEST_PROBE_KERNELS);
    for (int rank = 0; rank < kRanks; ++rank) count_anew(rank);
  }

  void count_anew(int rank) {
    const std::int64_t zero = 0;
    for (std::size_t group = 0; group < 2; ++group) {
      counters_[group][static_cast<std::size_t>(rank)] = mesh_.alloc(rank, HostView(&zero, {1}));
    }
  }
  std::int64_t count(std::size_t group, int rank) {
    return values_of<std::int64_t>(mesh_, counters_[group][static_cast<std::size_t>(rank)])[0];
  }

  rankcast::Run submit() {
    return mesh_.submit(Program("groups",
                                [this](Orchestrator& orch, const Arguments&) {
                                  for (std::size_t group = 0; group < 2; ++group) {
                                    std::vector<TaskArgs> arguments;
                                    for (const int rank : kMembers[group]) {
                                      arguments.emplace_back().no_dep(
                                          counters_[group][static_cast<std::size_t>(rank)]);
                                    }
                                    orch.submit_group("probe.plus_one", kMembers[group], arguments);
                                  }
                                }),
                        {});
  }

  /// How often the members of each group ran that are not among `lost`: all as often.
  void expect_all_or_none(int lost) {
    for (std::size_t group = 0; group < 2; ++group) {
      std::vector<std::int64_t> counts;
      for (const int rank : kMembers[group]) {
        if (rank != lost) counts.push_back(count(group, rank));
      }
      ASSERT_THAT(counts, Each(counts.front())) << "group " << group;
    }
  }

  inline static const std::array<std::vector<int>, 2> kMembers = {std::vector<int>{0, 1, 2},
                                                                  std::vector<int>{3, 2, 1}};
  std::mt19937 random_{kSeed};
  Mesh mesh_ = open();
  std::array<std::array<DeviceTensor, kRanks>, 2> counters_;
};

#ifdef RANKCAST_TEST_SANITIZED
constexpr int kCancelRounds = 1'000;
#else
constexpr int kCancelRounds = 10'000;
#endif

TEST_P(ThoroughMeshGroup, CancelsAtAnyTime) {
  for (int round = 0; round < kCancelRounds && !HasFatalFailure(); ++round) {
    const rankcast::Run run = submit();
    const rankcast::Run behind = submit();
    for (auto delay = random_() % 6; delay-- > 0;) std::this_thread::yield();
    if (random_() % 2 == 0) (random_() % 2 == 0 ? run : behind).cancel();
    for (const rankcast::Run* each : {&run, &behind}) {
      try {
        ASSERT_TRUE(each->wait_for(kHangLimit));
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::cancelled) << error.what();
      }
    }
    if (round % 100 == 0) expect_all_or_none(-1);
  }
  expect_all_or_none(-1);
}

TEST_P(ThoroughMeshGroup, RanksThatDieAtAnyTime) {
  if (GetParam() == "thread") GTEST_SKIP() << "a thread does not die alone";
  for (int round = 0; round < 300 && !HasFatalFailure(); ++round) {
    const int victim = static_cast<int>(random_() % kRanks);
    const rankcast::Run run = submit();
    const rankcast::Run behind = submit();
    for (auto delay = random_() % 6; delay-- > 0;) std::this_thread::yield();
    ASSERT_EQ(kill(mesh_.ranks()[static_cast<std::size_t>(victim)].process, SIGKILL), 0);
    if (random_() % 4 == 0) behind.cancel();
    for (const rankcast::Run* each : {&run, &behind}) {
      try {
        ASSERT_TRUE(each->wait_for(kHangLimit));
      } catch (const Error& error) {
        ASSERT_TRUE(error.code() == ErrorCode::rank_lost || error.code() == ErrorCode::cancelled)
            << error.what();
      }
    }
    ASSERT_TRUE(eventually([&] { return mesh_.ranks()[static_cast<std::size_t>(victim)].lost; }));
    expect_all_or_none(victim);
    mesh_.restart_rank(victim);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank != victim) {
        mesh_.free(counters_[0][static_cast<std::size_t>(rank)]);
        mesh_.free(counters_[1][static_cast<std::size_t>(rank)]);
      }
      count_anew(rank);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Links, ThoroughMeshGroup, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
