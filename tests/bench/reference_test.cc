#include "bench/lib/reference.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/segment.h"
#include "bench/lib/kernel_library.h"
#include "bench/lib/reference_side.h"
#include "rankcast/error.h"
#include "support/expect_error.h"

namespace rankcast::bench {
namespace {

constexpr base::SpinPolicy kYielding{100'000, true};
constexpr std::chrono::minutes kHangLimit{5};

// Ranks are processes; they are asleep at once.
using Form = std::tuple<Bell, base::StoreKind, Packing, bool, bool>;

std::unique_ptr<ReferenceRanks> ranks_of(bool processes, const KernelLibrary& library,
                                         const char* kernel) {
  if (!processes) return thread_ranks(&library.find(kernel));
  return process_ranks({RANKCAST_TEST_COMMAND, library.path(), kernel});
}

class ReferenceForms : public testing::TestWithParam<Form> {};

TEST_P(ReferenceForms, EveryResultOfEveryRoundIsRight) {
  const auto [bell, stores, packing, processes, asleep] = GetParam();
  const KernelLibrary library = KernelLibrary::open(RANKCAST_TEST_KERNELS);
  const std::unique_ptr<Job> job = make_sum_job(8, 142);
  const std::unique_ptr<Rounds> rounds = job->rounds();
  Reference reference(*job, ranks_of(processes, library, job->kernel()),
                      asleep ? base::SpinPolicy::none() : kYielding);
  reference.use({bell, stores});
  ReferenceSide side(*job, reference, *rounds, packing, kHangLimit);
  for (int round = 0; round < 200; ++round) {
    side.prepare();
    const RoundTimes& times = side.run_round();
    const std::optional<Mismatch> mismatch = side.verify();
    ASSERT_FALSE(mismatch) << "round " << round << ", rank " << mismatch->rank;
    EXPECT_DOUBLE_EQ(times.total_us, times.submit_us + times.wait_us);
    ASSERT_EQ(times.entry_us.size(), 8U);
    for (const double entry : times.entry_us) {
      EXPECT_GE(entry, 0);
      EXPECT_LE(entry, times.total_us);
    }
    const auto [first, last] = std::minmax_element(times.entry_us.begin(), times.entry_us.end());
    EXPECT_DOUBLE_EQ(times.entry_spread_us, *last - *first);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceForms,
                         testing::Combine(testing::Values(Bell::each, Bell::all),
                                          testing::Values(base::StoreKind::ordinary,
                                                          base::StoreKind::streaming),
                                          testing::Values(Packing::repacked, Packing::reused),
                                          testing::Bool(), testing::Bool()));

struct Fixture {
  std::unique_ptr<Job> job = make_sum_job(3, 5);
  std::unique_ptr<Rounds> rounds = job->rounds();
};

rankcast_kernel kernel_of(int (*run)(const rankcast_kernel_context*, void*, const rankcast_call*,
                                     rankcast_failure*)) {
  rankcast_kernel kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.name = "test.kernel";
  kernel.run = run;
  return kernel;
}

TEST(Reference, AResultThatIsNotWrittenIsFound) {
  Fixture fixture;
  const rankcast_kernel idle =
      kernel_of([](const rankcast_kernel_context*, void*, const rankcast_call*, rankcast_failure*) {
        return RANKCAST_OK;
      });
  Reference reference(*fixture.job, thread_ranks(&idle), kYielding);
  ReferenceSide side(*fixture.job, reference, *fixture.rounds, Packing::repacked, kHangLimit);
  side.prepare();
  side.run_round();
  const std::optional<Mismatch> mismatch = side.verify();
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(mismatch->rank, 0);
  EXPECT_EQ(mismatch->found, "-1");
}

TEST(Reference, RanksSeeTheirOwnTensorsInTheOrderOfTheJob) {
  Fixture fixture;
  const rankcast_kernel kernel = kernel_of([](const rankcast_kernel_context* context, void*,
                                              const rankcast_call* call, rankcast_failure*) {
    if (call->tensor_count != 5 || context->world_size != 3) return RANKCAST_FAILED;
    for (std::uint32_t i = 0; i < call->tensor_count; ++i) {
      const DLTensor& tensor = call->tensors[i];
      if (tensor.ndim != 1 || tensor.shape[0] != 16 || tensor.strides[0] != 1)
        return RANKCAST_FAILED;
      if (reinterpret_cast<std::uintptr_t>(tensor.data) % 256 != 0) return RANKCAST_FAILED;
      if (call->tags[i] != (i < 4 ? RANKCAST_IN : RANKCAST_OUT)) return RANKCAST_FAILED;
    }
    *static_cast<float*>(call->tensors[4].data) = static_cast<float>(context->rank + 100);
    return RANKCAST_OK;
  });
  Reference reference(*fixture.job, thread_ranks(&kernel), kYielding);
  reference.round(Packing::repacked);
  for (int rank = 0; rank < 3; ++rank) {
    float found = 0;
    std::memcpy(&found, reference.tensor(rank, 4).data(), sizeof(found));
    EXPECT_EQ(found, static_cast<float>(rank + 100));
    const std::span<const std::byte> initial = fixture.job->initial(1, rank);
    EXPECT_TRUE(std::equal(initial.begin(), initial.end(), reference.tensor(rank, 1).begin()));
  }
}

TEST(Reference, AKernelThatFailsIsAnError) {
  Fixture fixture;
  const rankcast_kernel failing = kernel_of([](const rankcast_kernel_context* context, void*,
                                               const rankcast_call*, rankcast_failure* failure) {
    if (context->rank != 1) return RANKCAST_OK;
    std::snprintf(failure->text, sizeof(failure->text), "no luck");
    return RANKCAST_FAILED;
  });
  Reference reference(*fixture.job, thread_ranks(&failing), kYielding);
  try {
    reference.round(Packing::repacked);
    FAIL() << "the failure was lost";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::task_failed);
    EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("no luck"), std::string::npos) << error.what();
  }
}

TEST(Reference, AKernelThatCannotBePreparedIsAnError) {
  Fixture fixture;
  rankcast_kernel kernel = kernel_of([](const rankcast_kernel_context*, void*, const rankcast_call*,
                                        rankcast_failure*) { return RANKCAST_OK; });
  kernel.prepare = [](const rankcast_kernel_context*, const rankcast_call*, rankcast_preparation*,
                      rankcast_failure* failure) {
    std::snprintf(failure->text, sizeof(failure->text), "no room");
    return RANKCAST_FAILED;
  };
  EXPECT_THROW(Reference(*fixture.job, thread_ranks(&kernel), kYielding), Error);
}

TEST(Reference, WithoutAKernelRoundsEndAllTheSame) {
  Fixture fixture;
  Reference reference(*fixture.job, thread_ranks(nullptr), kYielding);
  for (int round = 0; round < 50; ++round) {
    const Packing packing = round % 2 == 0 ? Packing::reused : Packing::repacked;
    EXPECT_GT(reference.round(packing).total_us, 0);
  }
}

// Processes that this one has started and that run the command `reference-rank`.
std::vector<int> reference_processes() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(entry.path() / "children");
    for (int pid = 0; children >> pid;) {
      std::ifstream words("/proc/" + std::to_string(pid) + "/cmdline");
      const std::string text{std::istreambuf_iterator<char>(words), {}};
      if (text.find(kReferenceRankCommand) != std::string::npos) found.push_back(pid);
    }
  }
  return found;
}

Reference processes(const Fixture& fixture, const std::string& command = RANKCAST_TEST_COMMAND,
                    const std::string& library = RANKCAST_TEST_KERNELS,
                    const std::string& kernel = "rankcast.sum") {
  return {*fixture.job, process_ranks({command, library, kernel}), kYielding};
}

TEST(ReferenceProcesses, AreOneARankAndEndWithTheReference) {
  Fixture fixture;
  {
    Reference reference = processes(fixture);
    EXPECT_STREQ(reference.ranks(), "process");
    const std::vector<int> before = reference_processes();
    EXPECT_EQ(before.size(), 3U);
    for (const int pid : before) EXPECT_EQ(getpgid(pid), pid) << "a key at the terminal reaches it";
    reference.use({Bell::all, base::StoreKind::ordinary});
    EXPECT_EQ(reference_processes().size(), 3U);
    reference.round(Packing::repacked, kHangLimit);
  }
  EXPECT_EQ(reference_processes(), std::vector<int>{});
}

TEST(ReferenceProcesses, WithoutAKernelRoundsEndAllTheSame) {
  Fixture fixture;
  Reference reference = processes(fixture, RANKCAST_TEST_COMMAND, "", "");
  for (int round = 0; round < 10; ++round) {
    EXPECT_GT(reference.round(Packing::repacked, kHangLimit).total_us, 0);
  }
}

TEST(ReferenceProcesses, AKilledOneIsNamedAndTheOthersEnd) {
  Fixture fixture;
  {
    Reference reference = processes(fixture);
    kill(reference_processes().front(), SIGKILL);
    test::expect_error(ErrorCode::rank_lost, {"rank ", "killed by signal 9", "reference"},
                       [&] { reference.round(Packing::repacked, kHangLimit); });
  }
  EXPECT_EQ(reference_processes(), std::vector<int>{});
}

TEST(ReferenceProcesses, WhatCannotStartIsToldAndLeavesNothing) {
  Fixture fixture;
  test::expect_error(ErrorCode::unsupported, {"cannot start", "no-such-command"},
                     [&] { processes(fixture, "no-such-command"); });
  test::expect_error(ErrorCode::rank_lost, {"rank ", "exited with status 0", "reference"},
                     [&] { processes(fixture, "/bin/true"); });
  test::expect_error(ErrorCode::task_failed, {"no-such-library"},
                     [&] { processes(fixture, RANKCAST_TEST_COMMAND, "no-such-library.so"); });
  test::expect_error(ErrorCode::task_failed, {"no.such_kernel"}, [&] {
    processes(fixture, RANKCAST_TEST_COMMAND, RANKCAST_TEST_KERNELS, "no.such_kernel");
  });
  EXPECT_EQ(reference_processes(), std::vector<int>{});
}

TEST(ReferenceMemory, HasRoomForAllAndIsKnownAgain) {
  const ReferenceSizes sizes{3, 5, 1000};
  const std::size_t bytes = ReferenceMemory::bytes_needed(sizes);
  base::Segment segment = base::value_or_throw(base::Segment::reserve(bytes));
  EXPECT_FALSE(ReferenceMemory::attach(segment.base(), bytes)) << "nobody has laid it out";
  const ReferenceMemory memory = ReferenceMemory::create(segment.base(), sizes);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.frame(rank)) % 4096, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.tensors(rank)) % 256, 0U);
    EXPECT_GE(memory.tensors(rank), reinterpret_cast<std::byte*>(memory.frame(rank) + 5));
    EXPECT_LE(memory.tensors(rank) + 1000, segment.base() + bytes);
  }
  EXPECT_GE(reinterpret_cast<std::byte*>(memory.frame(1)), memory.tensors(0) + 1000);
  EXPECT_LE(memory.tags().data() + 5, reinterpret_cast<std::uint8_t*>(memory.frame(0)));

  const std::optional<ReferenceMemory> again = ReferenceMemory::attach(segment.base(), bytes);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->ranks(), 3U);
  EXPECT_EQ(again->tensors(2), memory.tensors(2));
  EXPECT_FALSE(ReferenceMemory::attach(segment.base(), bytes - 1));
  EXPECT_FALSE(ReferenceMemory::attach(segment.base(), 8));
}

TEST(Calibration, TriesEveryFormAndKeepsTheQuickest) {
  Fixture fixture;
  Reference reference(*fixture.job, thread_ranks(nullptr), kYielding);
  int idles = 0;
  int checkpoints = 0;
  const std::vector<CalibrationResult> results =
      calibrate(reference, [&] { ++idles; }, [&] { ++checkpoints; }, std::chrono::milliseconds(5));
  EXPECT_EQ(results.size(), base::has_streaming_stores() ? 4U : 2U);
  EXPECT_EQ(idles, checkpoints);
  EXPECT_GE(idles, static_cast<int>(results.size()));
  const auto best = std::min_element(results.begin(), results.end(),
                                     [](const CalibrationResult& a, const CalibrationResult& b) {
                                       return a.total_us < b.total_us;
                                     });
  EXPECT_EQ(reference.choice(), best->choice);
  for (const CalibrationResult& result : results) EXPECT_GT(result.total_us, 0);
}

}  // namespace
}  // namespace rankcast::bench
