#include "mesh/store_chooser.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace rankcast::mesh {
namespace {

using base::StoreKind;

class StoreChooserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!base::has_streaming_stores()) GTEST_SKIP() << "this processor has one kind of store";
  }

  /// One run of the kind that is next.
  StoreKind run(std::int64_t ordinary_ns, std::int64_t streaming_ns,
                std::uint64_t bytes = StoreChooser::kMinBytes) {
    const StoreKind kind = chooser_.next();
    chooser_.add(kind, bytes, kind == StoreKind::ordinary ? ordinary_ns : streaming_ns);
    return kind;
  }
  void trial(std::int64_t ordinary_ns, std::int64_t streaming_ns) {
    for (std::size_t i = 0; i < 2 * StoreChooser::kSamples; ++i) run(ordinary_ns, streaming_ns);
  }

  StoreChooser chooser_;
};

TEST_F(StoreChooserTest, BothTakeTurnsInATrial) {
  std::array<std::size_t, 2> counts{};
  for (std::size_t i = 0; i < 2 * StoreChooser::kSamples; ++i) {
    const StoreKind kind = run(100, 100);
    EXPECT_EQ(kind, i / StoreChooser::kTurn % 2 == 0 ? StoreKind::ordinary : StoreKind::streaming);
    ++counts[static_cast<std::size_t>(kind)];
  }
  EXPECT_EQ(counts[0], StoreChooser::kSamples);
  EXPECT_EQ(counts[1], StoreChooser::kSamples);
}

TEST_F(StoreChooserTest, TheSmallerMedianStays) {
  trial(100, 50);
  EXPECT_EQ(chooser_.chosen(), StoreKind::streaming);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(run(1, 1000), StoreKind::streaming) << "until it is tried again";
}

TEST_F(StoreChooserTest, OutliersDoNotDecide) {
  for (std::size_t i = 0; i < 2 * StoreChooser::kSamples; ++i) {
    run(100, i % 3 == 0 ? 1'000'000 : 90);
  }
  EXPECT_EQ(chooser_.chosen(), StoreKind::streaming);
}

TEST_F(StoreChooserTest, IsTriedAgainLater) {
  trial(100, 50);
  std::uint64_t runs = 0;
  while (chooser_.next() == StoreKind::streaming && runs < 2 * StoreChooser::kRunsBetweenTrials) {
    run(10, 50);
    ++runs;
  }
  EXPECT_EQ(runs, StoreChooser::kRunsBetweenTrials - 2 * StoreChooser::kSamples)
      << "a trial begins with ordinary stores";
  trial(10, 50);
  EXPECT_EQ(chooser_.chosen(), StoreKind::ordinary);
}

TEST_F(StoreChooserTest, SmallFramesSayNothing) {
  for (int i = 0; i < 1000; ++i) run(1000, 1, StoreChooser::kMinBytes - 1);
  EXPECT_EQ(chooser_.chosen(), StoreKind::ordinary);
  EXPECT_EQ(chooser_.next(), StoreKind::ordinary) << "the trial has not moved";
}

TEST_F(StoreChooserTest, AKindThatWasSaidIsNotTried) {
  chooser_ = StoreChooser(StoreKind::streaming);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(run(1, 1000), StoreKind::streaming);
}

TEST(StoreChooserVariable, SaysTheKindOrIsRefusedByName) {
  const auto with = [](const char* value) {
    setenv("RANKCAST_STORES", value, 1);
    auto chooser = StoreChooser::from_environment();
    unsetenv("RANKCAST_STORES");
    return chooser;
  };
  EXPECT_EQ(with("streaming")->chosen(), StoreKind::streaming);
  EXPECT_EQ(with("ordinary")->chosen(), StoreKind::ordinary);
  EXPECT_TRUE(with("measured").has_value());
  EXPECT_TRUE(with("").has_value()) << "as one that is not set";
  EXPECT_TRUE(StoreChooser::from_environment().has_value());
  for (const char* bad : {"fast", "Streaming"}) {
    const auto refused = with(bad);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().text.find("RANKCAST_STORES"), std::string::npos);
  }
}

}  // namespace
}  // namespace rankcast::mesh
