#include "base/function_ref.h"

#include <gtest/gtest.h>

#include <memory>

namespace rankcast::base {
namespace {

int doubled(FunctionRef<int(int)> function) { return 2 * function(3); }

TEST(FunctionRefTest, CallsWhatItRefersTo) {
  int calls = 0;
  EXPECT_EQ(doubled([&](int value) { return ++calls, value + 1; }), 8);
  EXPECT_EQ(calls, 1);
  auto counting = [count = 0](int) mutable { return ++count; };
  EXPECT_EQ(doubled(counting), 2);
  EXPECT_EQ(doubled(counting), 4);  // the same object, not a copy
  const auto constant = [](int value) { return value; };
  EXPECT_EQ(doubled(constant), 6);
}

TEST(FunctionRefTest, PassesArgumentsOnUntouched) {
  std::unique_ptr<int> kept;
  const auto keep = [&](std::unique_ptr<int> value, int& sum) {
    sum += *value;
    kept = std::move(value);
  };
  int sum = 1;
  const FunctionRef<void(std::unique_ptr<int>, int&)> function = keep;
  function(std::make_unique<int>(4), sum);
  EXPECT_EQ(sum, 5);
  EXPECT_EQ(*kept, 4);
}

}  // namespace
}  // namespace rankcast::base
