// Kernel libraries where ranks are processes: on every rank once load_kernels has returned, or on
// none that anybody can name.
// tests: src/mesh/load_kernels.cc
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "mesh/support.h"
#include "support/temp_folder.h"

namespace rankcast::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class MeshLoadKernels : public ::testing::Test {
 protected:
  MeshLoadKernels() { std::filesystem::copy_file(RANKCAST_TEST_PROBE_KERNELS, library_); }
  ~MeshLoadKernels() override {
    unsetenv("RANKCAST_TEST_PROBE_UNLINKS");
    unsetenv("RANKCAST_TEST_PROBE_APPENDS");
  }

  /// Runs a kernel of the library on each rank.
  void expect_runs() {
    const StackedDeviceTensor out = mesh_.alloc_stacked({3, 5}, DType::i64);
    const Program program("probe", [](Orchestrator& orch, const Arguments& args) {
      for (int rank = 0; rank < 3; ++rank) {
        orch.submit("probe.prepared", rank, TaskArgs{}.out(args[0].shard_on(rank)));
      }
    });
    mesh_.submit(program, {out}).wait();
    std::vector<std::int64_t> values(15);
    mesh_.download(out, MutableHostView(values.data(), {3, 5}));
    for (const std::size_t rank : {0u, 1u, 2u}) EXPECT_EQ(values[5 * rank], 5);
    mesh_.free(out);
  }
  /// A rank, not the host, refuses; nothing is left of it.
  void expect_rank_refuses(const std::string& words) {
    const std::vector<std::string> before = mesh_.kernels();
    try {
      mesh_.load_kernels(library_);
      ADD_FAILURE() << "it was loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(error.rank(), 0);
      EXPECT_THAT(error.what(), ::testing::StartsWith("rank 0: kernel library \"" + library_));
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
    EXPECT_EQ(mesh_.kernels(), before);
  }

  TempFolder folder_;
  const std::string library_ = folder_.path("probe_copy.so");
  Mesh mesh_ = Mesh::open({.devices = "cpu:0-2", .link = "process"});
};

TEST_F(MeshLoadKernels, EveryRankHasThem) {
  mesh_.load_kernels(library_);
  EXPECT_THAT(mesh_.kernels(), Contains("probe.prepared"));
  expect_runs();
  EXPECT_EQ(mesh_.stats().runs_in_flight, 0u);
  expect_error(ErrorCode::invalid_argument, {"probe.", "taken"},
               [&] { mesh_.load_kernels(library_); });
  expect_runs();
}

TEST_F(MeshLoadKernels, ASuccessorHasThem) {
  mesh_.load_kernels(library_);
  mesh_.restart_rank(1);
  expect_runs();
}

TEST_F(MeshLoadKernels, AKernelThatEndsItsRankFailsTheRunAlone) {
  mesh_.load_kernels(library_);
  const StackedDeviceTensor out = mesh_.alloc_stacked({3, 5}, DType::i64);
  const auto error = error_of([&] {
    mesh_
        .submit(Program("dies",
                        [](Orchestrator& orch, const Arguments& args) {
                          for (int rank = 0; rank < 3; ++rank) {
                            orch.submit(rank == 1 ? "probe.dies" : "probe.prepared", rank,
                                        TaskArgs{}.out(args[0].shard_on(rank)));
                          }
                        }),
                {out})
        .wait();
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rank_lost);
  EXPECT_EQ(error->rank(), 1);
  mesh_.free(out);
  mesh_.restart_rank(1);
  expect_runs();
}

TEST_F(MeshLoadKernels, APathIsBytesOfWhichNotAllAreUtf8) {
  const std::string odd = folder_.path("odd_\xff\xfe.so");
  std::filesystem::copy_file(RANKCAST_TEST_PROBE_KERNELS, odd);
  mesh_.load_kernels(odd);
  expect_runs();
  mesh_.restart_rank(1);
  expect_runs();
  std::filesystem::remove(odd);
  expect_error(ErrorCode::invalid_argument, {"rank 1", "odd_??.so", "no such file"},
               [&] { mesh_.restart_rank(1); });
}

TEST_F(MeshLoadKernels, OfALongPathARankTellsWhatIsWrong) {
  std::string folder = folder_.path("");
  while (folder.size() < 1200) {
    folder += std::string(100, 'x') + "/";
    std::filesystem::create_directory(folder);
  }
  const std::string library = folder + "probe.so";
  std::filesystem::copy_file(RANKCAST_TEST_PROBE_KERNELS, library);
  setenv("RANKCAST_TEST_PROBE_UNLINKS", library.c_str(), 1);
  expect_error(ErrorCode::invalid_argument, {"rank 0", folder_.path(""), " [...] ", "no such file"},
               [&] { mesh_.load_kernels(library); });
  unsetenv("RANKCAST_TEST_PROBE_UNLINKS");
  std::filesystem::copy_file(RANKCAST_TEST_PROBE_KERNELS, library);
  mesh_.load_kernels(library);
  std::filesystem::remove(library);
  expect_error(ErrorCode::invalid_argument, {"rank 1", folder_.path(""), " [...] ", "no such file"},
               [&] { mesh_.restart_rank(1); });
}

TEST_F(MeshLoadKernels, IsADispatchOfItsOwnKind) {
  mesh_.load_kernels(library_);
  expect_runs();
  const std::vector<DispatchRecord> flights = mesh_.last_dispatches(2);
  ASSERT_EQ(flights.size(), 2u + 1u) << "a run, a download, and before them:";
  EXPECT_TRUE(flights[2].loads_kernels);
  EXPECT_TRUE(flights[2].good);
  EXPECT_EQ(flights[2].tasks, 0u);
  EXPECT_FALSE(flights[1].loads_kernels);
  kill(mesh_.ranks()[2].process, SIGKILL);
  ASSERT_TRUE(eventually([&] { return mesh_.ranks()[2].lost; }));
  expect_error(ErrorCode::rank_lost, {"(kernel library) good"},
               [&] { mesh_.alloc(2, {1}, DType::u8); });
}

TEST_F(MeshLoadKernels, ARankThatIsGoneGetsThemWithItsSuccessor) {
  kill(mesh_.ranks()[1].process, SIGKILL);
  ASSERT_TRUE(eventually([&] { return mesh_.ranks()[1].lost; }));
  mesh_.load_kernels(library_);
  mesh_.restart_rank(1);
  expect_runs();
}

TEST_F(MeshLoadKernels, WhatTheHostRefusesNoRankIsTold) {
  expect_error(ErrorCode::invalid_argument, {"no/such.so", "no such file"},
               [&] { mesh_.load_kernels("no/such.so"); });
  EXPECT_THAT(mesh_.kernels(), Not(Contains("probe.prepared")));
  mesh_.load_kernels(library_);
  expect_runs();
}

TEST_F(MeshLoadKernels, AFileThatIsGoneForTheRanks) {
  setenv("RANKCAST_TEST_PROBE_UNLINKS", library_.c_str(), 1);
  expect_rank_refuses("no such file");
  unsetenv("RANKCAST_TEST_PROBE_UNLINKS");
  std::filesystem::copy_file(RANKCAST_TEST_PROBE_KERNELS, library_);
  mesh_.load_kernels(library_);
  expect_runs();
}

TEST_F(MeshLoadKernels, AFileThatHasChangedForTheRanks) {
  setenv("RANKCAST_TEST_PROBE_APPENDS", library_.c_str(), 1);
  expect_rank_refuses("SHA-256");
  unsetenv("RANKCAST_TEST_PROBE_APPENDS");
  mesh_.load_kernels(library_);
  expect_runs();
}

TEST_F(MeshLoadKernels, ASuccessorOfAChangedFileDoesNotStart) {
  mesh_.load_kernels(library_);
  std::filesystem::remove(library_);
  TempFolder other;
  std::filesystem::copy_file(other.write("other", "no library"), library_);
  expect_error(ErrorCode::invalid_argument, {"rank 1", library_, "SHA-256"},
               [&] { mesh_.restart_rank(1); });
  EXPECT_TRUE(mesh_.ranks()[1].lost);
  std::filesystem::remove(library_);
  std::filesystem::copy_file(RANKCAST_TEST_PROBE_KERNELS, library_);
  mesh_.restart_rank(1);
  expect_runs();
}

}  // namespace
}  // namespace rankcast::test
