// Ranks that write into the memory of the mesh what they should not: a lost rank each, on every
// link, and never a wait without end.
// tests: src/mesh/rank_loss.cc
// tests: src/mesh/lost_ranks.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh/support.h"

namespace rankcast::test {
namespace {

using ::testing::HasSubstr;

class MeshDamage : public OnEachLink {
 protected:
  MeshDamage() { mesh_.load_kernels(RANKCAST_TEST_DAMAGE_KERNELS); }

  static Mesh open() {
    MeshOptions options;
    options.devices = "cpu:0-2";
    options.link = GetParam();
    return Mesh::open(options);
  }
  static Program forge_on_rank_1() { return launch_on("damage.forges_stop", {1}); }
  Program fill_on(std::vector<int> ranks) {
    return Program("fill", [this, ranks](Orchestrator& orch, const Arguments&) {
      for (const int rank : ranks)
        orch.submit("rankcast.fill", rank, TaskArgs{}.out(tensor_.shard_on(rank)).scalar(1.0));
    });
  }
  bool lost() const { return mesh_.ranks()[1].lost; }

  Mesh mesh_ = open();
  StackedDeviceTensor tensor_ = mesh_.alloc_stacked({3, 4}, DType::f32);
};

TEST_P(MeshDamage, AStopThatARankForgesForItselfIsALoss) {
  // A run behind it fails or is refused, whatever comes first. Where the host's next record took
  // the place of the stop before the rank had seen it, nothing has happened.
  std::optional<Error> error;
  for (int turn = 0; turn < 100 && !error; ++turn) {
    try {
      mesh_.submit(forge_on_rank_1(), {}).wait();
      rankcast::Run behind = mesh_.submit(fill_on({0, 1, 2}), {});
      EXPECT_TRUE(behind.wait_for(kHangLimit)) << "it waits for ever";
    } catch (const Error& thrown) {
      error = thrown;
    }
  }
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rank_lost) << error->what();
  EXPECT_EQ(error->rank(), 1);
  ASSERT_TRUE(eventually([&] { return lost(); }));
  mesh_.submit(fill_on({0, 2}), {}).wait();

  error = error_of([&] { mesh_.submit(fill_on({1}), {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rank_lost);
  const bool process = GetParam() == "process";
  EXPECT_THAT(error->what(),
              HasSubstr(process ? "exited with status 0" : "ended though nobody had told it to"));
  EXPECT_THAT(error->what(), HasSubstr(process ? "restart_rank" : "open it again"));
}

TEST_P(MeshDamage, ASuccessorDoesNotFindTheForgery) {
  if (GetParam() == "thread") {
    expect_error(ErrorCode::unsupported, {"thread"}, [&] { mesh_.restart_rank(1); });
    return;
  }
  for (int turn = 0; turn < 5; ++turn) {
    mesh_.submit(forge_on_rank_1(), {}).wait();
    ASSERT_TRUE(eventually([&] { return lost(); }));
    mesh_.restart_rank(1);
    mesh_.free(tensor_);
    tensor_ = mesh_.alloc_stacked({3, 4}, DType::f32);
    mesh_.submit(fill_on({0, 1, 2}), {}).wait();
    EXPECT_FALSE(lost());
  }
}

TEST_P(MeshDamage, ClosesAsAnyOther) {
  mesh_.submit(forge_on_rank_1(), {}).wait();
  ASSERT_TRUE(eventually([&] { return lost(); }));
  EXPECT_EQ(mesh_.close().leaked_buffers, 3u);
}

INSTANTIATE_TEST_SUITE_P(Links, MeshDamage, all_links(), name_of_link);

}  // namespace
}  // namespace rankcast::test
