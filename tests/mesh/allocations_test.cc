// Nothing on the path of a dispatch allocates once a program has run (PROTOCOL P2): operator new is
// counted in the thread that submits.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/lib/allocation_counter.h"
#include "mesh/support.h"

namespace rankcast::test {
namespace {

using bench::allocations_of_this_thread;

class MeshAllocations : public ::testing::Test {
 protected:
  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-7";
    return Mesh::open(options);
  }

  MeshAllocations() {
    for (int k = 0; k < 142; ++k) arguments_.emplace_back(mesh_.alloc_stacked({8, 16}, DType::f32));
  }

  Mesh mesh_ = open();
  std::vector<Argument> arguments_;
  const Program program_{"rank_sum", [](Orchestrator& orch, const Arguments& args) {
                           for (int rank = 0; rank < orch.world_size(); ++rank) {
                             TaskArgs task;
                             for (std::size_t i = 0; i + 1 < args.size(); ++i)
                               task.in(args[i].shard_on(rank));
                             orch.submit("rankcast.sum", rank,
                                         task.out(args[args.size() - 1].shard_on(rank)));
                           }
                         }};
};

TEST_F(MeshAllocations, ACountedAllocationIsSeen) {
  const std::uint64_t before = allocations_of_this_thread();
  const auto one = std::make_unique<int>(3);
  asm volatile("" : : "g"(one.get()) : "memory");  // or the compiler may leave it out
  EXPECT_EQ(allocations_of_this_thread(), before + 1);
}

TEST_F(MeshAllocations, ASubmitThatHasRunBeforeMakesNone) {
  for (int round = 0; round < 60; ++round) mesh_.submit(program_, arguments_).wait();
  const std::uint64_t growths = mesh_.stats().arena_growths;
  const std::uint64_t before = allocations_of_this_thread();
  for (int round = 0; round < 200; ++round) mesh_.submit(program_, arguments_).wait();
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_EQ(mesh_.stats().arena_growths, growths);
}

// Equal views repeat; views that move are encoded anew, with layouts that were met before.
TEST_F(MeshAllocations, NorDoViewsOfItsArguments) {
  std::int64_t row = 0;
  const Program program("rows", [&row](Orchestrator& orch, const Arguments& args) {
    for (int rank = 0; rank < orch.world_size(); ++rank) {
      TaskArgs task;
      for (std::size_t i = 0; i + 1 < args.size(); ++i) {
        task.in(args[i].shard_on(rank).slice(0, row, row + 1));
      }
      orch.submit("rankcast.sum", rank,
                  task.out(args[args.size() - 1].shard_on(rank).slice(0, 3, 4)));
    }
  });
  for (int round = 0; round < 60; ++round) {
    row = round / 3 % 2;
    mesh_.submit(program, arguments_).wait();
  }
  const std::uint64_t before = allocations_of_this_thread();
  const std::uint64_t built = mesh_.stats().descriptors_built;
  for (int round = 0; round < 30; ++round) mesh_.submit(program, arguments_).wait();
  EXPECT_EQ(mesh_.stats().descriptors_built, built);
  for (int round = 0; round < 60; ++round) {
    row = round / 3 % 2;
    mesh_.submit(program, arguments_).wait();
  }
  EXPECT_GT(mesh_.stats().descriptors_built, built);
  EXPECT_EQ(allocations_of_this_thread(), before);
}

TEST_F(MeshAllocations, NorDoSeveralInFlight) {
  std::array<rankcast::Run, 8> runs;
  const auto round = [&] {
    for (rankcast::Run& run : runs) run = mesh_.submit(program_, arguments_);
    for (rankcast::Run& run : runs) run.wait();
  };
  // Each of the slots has to have met the program once; which of them a submit takes is the mesh's
  // choice.
  for (int warm = 0; warm < 30; ++warm) round();
  const std::uint64_t before = allocations_of_this_thread();
  for (int i = 0; i < 30; ++i) round();
  EXPECT_EQ(allocations_of_this_thread(), before);
}

TEST_F(MeshAllocations, NorDropsAndReportsOfTheMesh) {
  for (int round = 0; round < 60; ++round) {
    mesh_.submit(program_, arguments_);
    mesh_.submit(program_, arguments_).wait();
  }
  const std::uint64_t before = allocations_of_this_thread();
  for (int round = 0; round < 60; ++round) {
    mesh_.submit(program_, arguments_);
    mesh_.submit(program_, arguments_).wait();
    EXPECT_GT(mesh_.stats().submits, 0u);
  }
  EXPECT_EQ(allocations_of_this_thread(), before);
}

}  // namespace
}  // namespace rankcast::test
