#include "bench/lib/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "bench/lib/kernel_library.h"
#include "bench/lib/reference_side.h"
#include "rankcast/error.h"

namespace rankcast::bench {
namespace {

constexpr base::SpinPolicy kYielding{100'000, true};
constexpr std::chrono::minutes kHangLimit{5};

using Form = std::tuple<Bell, base::StoreKind, Packing, bool>;  // the last: ranks asleep at once

class ReferenceForms : public testing::TestWithParam<Form> {};

TEST_P(ReferenceForms, EveryResultOfEveryRoundIsRight) {
  const auto [bell, stores, packing, asleep] = GetParam();
  const KernelLibrary library = KernelLibrary::open(RANKCAST_TEST_KERNELS);
  const std::unique_ptr<Job> job = make_sum_job(8, 142);
  const std::unique_ptr<Rounds> rounds = job->rounds();
  Reference reference(*job, &library.find(job->kernel()),
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

INSTANTIATE_TEST_SUITE_P(
    All, ReferenceForms,
    testing::Combine(testing::Values(Bell::each, Bell::all),
                     testing::Values(base::StoreKind::ordinary, base::StoreKind::streaming),
                     testing::Values(Packing::repacked, Packing::reused), testing::Bool()));

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
  Reference reference(*fixture.job, &idle, kYielding);
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
  Reference reference(*fixture.job, &kernel, kYielding);
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
  Reference reference(*fixture.job, &failing, kYielding);
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
  EXPECT_THROW(Reference(*fixture.job, &kernel, kYielding), Error);
}

TEST(Reference, WithoutAKernelRoundsEndAllTheSame) {
  Fixture fixture;
  Reference reference(*fixture.job, nullptr, kYielding);
  for (int round = 0; round < 50; ++round) {
    const Packing packing = round % 2 == 0 ? Packing::reused : Packing::repacked;
    EXPECT_GT(reference.round(packing).total_us, 0);
  }
}

TEST(Calibration, TriesEveryFormAndKeepsTheQuickest) {
  Fixture fixture;
  Reference reference(*fixture.job, nullptr, kYielding);
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
