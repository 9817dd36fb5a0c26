// Makes a scenario that fails smaller while it still fails.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "mesh/random_program.h"

namespace rankcast::test {

/// Leaves out steps, tasks and `after`s as long as `play` still finds a failure in one of a few
/// tries, within a bounded number of plays.
Scenario reduce(Scenario scenario,
                const std::function<std::optional<std::string>(const Scenario&)>& play);

}  // namespace rankcast::test
