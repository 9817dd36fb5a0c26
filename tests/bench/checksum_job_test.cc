// tests: bench/lib/checksum_job.cc
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "bench/lib/host_checksum.h"
#include "bench/lib/job.h"
#include "support/expect_error.h"
#include "support/safetensors_bytes.h"

namespace rankcast::bench {
namespace {

namespace fs = std::filesystem;

class ChecksumJobTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "rankcast-checksum.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string write(const std::string& bytes) const {
    const fs::path path = folder / "model.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  // A matrix of f32, a scalar of i64 and a vector of u8.
  std::string small_model() const {
    return write(
        test::safetensors_bytes(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                R"("step":{"dtype":"I64","shape":[],"data_offsets":[24,32]},)"
                                R"("mask":{"dtype":"U8","shape":[5],"data_offsets":[32,37]}})",
                                "the bytes of three tensors, 37 in al"
                                "l"));
  }

  fs::path folder;
};

std::vector<std::int64_t> sums(const Job& job, const Rounds::Preparation& preparation, int rank) {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i + 1 < job.tensors().size(); ++i) {
    std::span<const std::byte> bytes = job.initial(i, rank);
    if (i == preparation.changed_tensor) {
      const std::size_t size = preparation.changed.size() / static_cast<std::size_t>(job.ranks());
      bytes = preparation.changed.subspan(static_cast<std::size_t>(rank) * size, size);
    }
    result.push_back(host_checksum(bytes));
  }
  return result;
}

TEST_F(ChecksumJobTest, TakesTheTensorsOfTheFileOneThatChangesAndAnOutput) {
  const std::unique_ptr<Job> job = make_checksum_job(2, small_model());
  ASSERT_EQ(job->tensors().size(), 5U);
  EXPECT_EQ(job->tensors()[0].name, "w");
  EXPECT_EQ(job->tensors()[0].shape, Shape({2, 3}));
  EXPECT_EQ(job->tensors()[1].shape, Shape({1}));
  EXPECT_EQ(job->tensors()[2].dtype, DType::u8);
  EXPECT_EQ(job->tensors()[3].tag, Tag::in);
  EXPECT_EQ(job->tensors()[4].tag, Tag::out);
  EXPECT_EQ(job->tensors()[4].shape, Shape({4}));
  EXPECT_EQ(std::memcmp(job->initial(0, 1).data(), "the bytes", 9), 0);
  EXPECT_EQ(job->initial(0, 1).size(), 24U);
}

TEST_F(ChecksumJobTest, TheTrueChecksumsPassAndNoOthersDo) {
  constexpr int kRanks = 3;
  const std::unique_ptr<Job> job = make_checksum_job(kRanks, small_model());
  const std::unique_ptr<Rounds> rounds = job->rounds();
  const std::vector<int> all{0, 1, 2};
  std::vector<std::int64_t> before;
  for (int round = 0; round < 50; ++round) {
    const Rounds::Preparation preparation = rounds->next();
    std::vector<std::int64_t> right;
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<std::int64_t> of_rank = sums(*job, preparation, rank);
      right.insert(right.end(), of_rank.begin(), of_rank.end());
    }
    EXPECT_FALSE(rounds->check(std::as_bytes(std::span(right)), all));
    EXPECT_TRUE(rounds->check(preparation.poison, all));
    if (!before.empty()) {
      EXPECT_TRUE(rounds->check(std::as_bytes(std::span(before)), all));
    }
    for (std::size_t i = 0; i < right.size(); ++i) {
      std::vector<std::int64_t> wrong = right;
      wrong[i] ^= 1;
      const std::optional<Mismatch> found = rounds->check(std::as_bytes(std::span(wrong)), all);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->rank, static_cast<int>(i / 4));
      EXPECT_EQ(found->element, static_cast<std::int64_t>(i % 4));
    }
    before = right;
  }
}

TEST_F(ChecksumJobTest, RefusesFilesThatCannotBeUsed) {
  const std::string missing = (folder / "missing.safetensors").string();
  test::expect_error(ErrorCode::invalid_argument, {missing},
                     [&] { make_checksum_job(1, missing); });
  const std::string garbage = write("no header");
  test::expect_error(ErrorCode::invalid_argument, {garbage},
                     [&] { make_checksum_job(1, garbage); });
  const std::string empty = write(test::safetensors_bytes("{}"));
  test::expect_error(ErrorCode::invalid_argument, {empty}, [&] { make_checksum_job(1, empty); });
}

}  // namespace
}  // namespace rankcast::bench
