// The seed of a randomized test: printed, and given again by RANKCAST_TEST_SEED.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace rankcast::test {

/// That of the environment, else a new one. Printed, so that what fails can be run again.
inline std::uint64_t test_seed() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody writes the environment of a test
  const char* given = std::getenv("RANKCAST_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::cout << "seed: RANKCAST_TEST_SEED=" << seed << '\n';
  return seed;
}

}  // namespace rankcast::test
