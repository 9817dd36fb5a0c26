// Prepared kernels: how often prepare and release are called, workspace, eviction.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/fault_point.h"
#include "rank/prepared.h"
#include "tensor/layout.h"

namespace rankcast::rank {
namespace {

/// What the kernel below did, and shall do.
struct Log {
  int prepared = 0;
  std::vector<void*> released;
  std::uint64_t workspace_bytes = 0;
  bool fails = false;
};
Log* current_log = nullptr;

int prepare(const rankcast_kernel_context*, const rankcast_call*, rankcast_preparation* preparation,
            rankcast_failure* failure) {
  if (current_log->fails) {
    failure->argument = 1;
    std::snprintf(failure->text, sizeof(failure->text), "cannot be prepared");
    return RANKCAST_FAILED;
  }
  EXPECT_EQ(preparation->struct_size, sizeof(*preparation));
  EXPECT_EQ(preparation->state, nullptr);
  preparation->state =
      reinterpret_cast<void*>(static_cast<std::uintptr_t>(++current_log->prepared));
  preparation->workspace_bytes = current_log->workspace_bytes;
  return RANKCAST_OK;
}
void release(void* state) { current_log->released.push_back(state); }

class PreparedTest : public ::testing::Test {
 protected:
  PreparedTest() {
    current_log = &log_;
    kernel_.prepare = prepare;
    kernel_.release = release;
  }
  ~PreparedTest() override {
    prepared_.reset();
    EXPECT_EQ(log_.released.size(), static_cast<std::size_t>(log_.prepared)) << "each once";
    std::sort(log_.released.begin(), log_.released.end());
    EXPECT_EQ(std::unique(log_.released.begin(), log_.released.end()), log_.released.end())
        << "none twice";
    base::disarm_all_fault_points();
  }

  base::Result<Preparation> get(std::uint64_t id, std::int64_t extent = 4) {
    const frame::LayoutRecord layouts[] = {tensor::contiguous_layout(DType::f32, {extent})};
    failed_argument_ = -1;
    return prepared_->get(id, kernel_, {}, {}, layouts, &failed_argument_);
  }
  void* state_of(std::uint64_t id, std::int64_t extent = 4) {
    return get(id, extent).value().state;
  }

  Log log_;
  rankcast_kernel kernel_{};
  std::int32_t failed_argument_ = -1;
  std::unique_ptr<PreparedKernels> prepared_ = std::make_unique<PreparedKernels>();
};

TEST_F(PreparedTest, IsPreparedOnce) {
  void* const first = state_of(1);
  void* const second = state_of(2, 5);
  EXPECT_NE(first, second);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(state_of(1), first);
    EXPECT_EQ(state_of(2, 5), second);
  }
  EXPECT_EQ(log_.prepared, 2);
  EXPECT_TRUE(log_.released.empty());
}

TEST_F(PreparedTest, AnIdThatComesBackWithOtherLayoutsIsPreparedAnew) {
  void* const first = state_of(1);
  void* const other = state_of(1, 9);
  EXPECT_NE(first, other);
  EXPECT_EQ(log_.released, std::vector<void*>{first});
  EXPECT_EQ(state_of(1, 9), other);
  rankcast_kernel another = kernel_;
  const frame::LayoutRecord layouts[] = {tensor::contiguous_layout(DType::f32, {9})};
  EXPECT_NE(prepared_->get(1, another, {}, {}, layouts, &failed_argument_).value().state, other);
  EXPECT_EQ(log_.released.size(), 2u);
  prepared_.reset();  // before `another`
}

TEST_F(PreparedTest, AFailureIsToldAndNotRemembered) {
  log_.fails = true;
  for (int i = 0; i < 2; ++i) {
    const auto refused = get(1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::task_failed);
    EXPECT_THAT(refused.error().text, ::testing::HasSubstr("prepare: cannot be prepared"));
    EXPECT_EQ(failed_argument_, 1);
  }
  log_.fails = false;
  EXPECT_TRUE(get(1));
  EXPECT_EQ(log_.prepared, 1);
}

TEST_F(PreparedTest, WorkspaceIsAsLargeAsAskedForAndAligned) {
  EXPECT_EQ(get(1).value().workspace, nullptr);
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, std::uint64_t{100'000}, std::uint64_t{5000}}) {
    log_.workspace_bytes = bytes;
    const Preparation preparation = get(10 + bytes).value();
    ASSERT_NE(preparation.workspace, nullptr);
    EXPECT_GE(preparation.workspace_bytes, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(preparation.workspace) % 256, 0u);
    std::memset(preparation.workspace, 1, bytes);
  }
  // One that was prepared when there was less gets what there is now.
  const Preparation again = get(11).value();
  std::memset(again.workspace, 2, again.workspace_bytes);
}

TEST_F(PreparedTest, NoMemoryForTheWorkspace) {
  log_.workspace_bytes = 4096;
  base::arm_fault_point("base.segment_reserve");
  const auto refused = get(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(log_.released.size(), 1u) << "what was prepared is released";
  EXPECT_TRUE(get(1));
}

TEST_F(PreparedTest, TheOneUnusedForLongestGoesFirst) {
  for (std::uint64_t id = 1; id <= PreparedKernels::kMax; ++id) state_of(id);
  void* const oldest = reinterpret_cast<void*>(std::uintptr_t{1});
  EXPECT_EQ(state_of(1), oldest);
  state_of(PreparedKernels::kMax + 1);
  EXPECT_EQ(log_.released, std::vector<void*>{reinterpret_cast<void*>(std::uintptr_t{2})});
  EXPECT_EQ(state_of(1), oldest) << "it was used since";
  EXPECT_EQ(log_.prepared, static_cast<int>(PreparedKernels::kMax) + 1);
}

TEST_F(PreparedTest, ReleaseMayBeNull) {
  kernel_.release = nullptr;
  state_of(1);
  state_of(1, 5);
  prepared_.reset();
  EXPECT_TRUE(log_.released.empty());
  log_.prepared = 0;
}

}  // namespace
}  // namespace rankcast::rank
