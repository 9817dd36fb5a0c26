// Walks over fault points: which ones a call reaches, and each made to fail in turn.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fault_point.h"
#include "rankcast/error.h"

namespace rankcast::test {

/// What a good pass of `act` reaches.
template <class Act>
std::vector<std::string> points_of(Act act) {
  base::forget_fault_points();
  base::record_fault_points(true);
  act();
  base::record_fault_points(false);
  return base::fault_point_names();
}

/// Fails `act` at the named point's first, second, ... pass until it passes the point no more
/// often; `after(error)` looks at each failure. Returns how often it failed.
template <class Act, class After>
int walk(const std::string& point, Act act, After after) {
  for (std::uint32_t skip = 0; skip < 100; ++skip) {
    base::arm_fault_point(point, skip);
    std::optional<Error> error;
    try {
      act();
    } catch (const Error& thrown) {
      error = thrown;
    }
    if (base::armed_fault_points() != 0) {
      EXPECT_FALSE(error) << point
                          << ": failed although its point was not reached: " << error->what();
      base::disarm_all_fault_points();
      return static_cast<int>(skip);
    }
    SCOPED_TRACE(point + ", pass " + std::to_string(skip + 1));
    EXPECT_TRUE(error) << "a failure that nobody was told of";
    if (error) after(*error);
  }
  ADD_FAILURE() << point << " has no end";
  return 0;
}

/// What may fail without anybody being told, since it is made up for: a rank asks for a segment
/// that it was not sent.
inline constexpr const char kMadeUpFor[] = "base.send_message";

/// Leaves nothing armed or recorded behind a test.
class FaultScope {
 public:
  FaultScope() = default;
  ~FaultScope() {
    base::record_fault_points(false);
    base::disarm_all_fault_points();
  }
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;
};

}  // namespace rankcast::test
