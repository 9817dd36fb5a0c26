// Says how much a stepping test covered.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>

#include "base/stepper.h"

namespace rankcast::base::stepping {

/// Expects that every schedule ended well, and prints the counts.
inline void expect_good(const Exploration& found) {
  EXPECT_TRUE(found.good()) << found.failure;
  std::printf("             %llu states, %.4g schedules\n",
              static_cast<unsigned long long>(found.states), found.schedules);
}

/// Expects that a schedule was found that fails in a way whose text holds `how`.
inline void expect_found(const Exploration& found, const char* how) {
  EXPECT_NE(found.failure.find(how), std::string::npos)
      << "expected to find: " << how << "; found: " << found.failure;
}

}  // namespace rankcast::base::stepping
