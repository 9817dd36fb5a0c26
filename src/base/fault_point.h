// Fault points: places where a test makes the code fail.
//
//   if (RANKCAST_FAULT_POINT("segment.reserve")) return <the failure that could happen here>;
//
// Names are "folder.what". A test records a good pass to learn the names, then arms each in turn
// and asserts that the failure is reported and that nothing is left behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic.h"

namespace rankcast::base {

/// Starts (or stops) noting every point that is reached.
void record_fault_points(bool on);

/// The names noted so far, sorted, each once. Kept until forget_fault_points().
std::vector<std::string> fault_point_names();
void forget_fault_points();

/// The point `name` says "fail" once, after it has been passed `skip_count` more times; it then
/// disarms itself. Several may be armed. Any thread.
void arm_fault_point(std::string_view name, std::uint32_t skip_count = 0);

/// How many armed points have not failed yet: 0 after a test means that its point was reached.
int armed_fault_points();

void disarm_all_fault_points();

namespace detail {
// Written by: arm, record and disarm. Read by: every fault point. Ordered by: nothing; a test arms
// before it acts.
extern std::atomic<std::uint32_t> fault_points_active;
bool fault_point_reached(std::string_view name);
}  // namespace detail

/// Use the macro. Cost while nothing is armed or recorded: one relaxed load and a predictable
/// branch.
inline bool fault_point(std::string_view name) {
  // relaxed: a flag; the registry behind it has its own lock
  if (load_relaxed(detail::fault_points_active) == 0) [[likely]]
    return false;
  return detail::fault_point_reached(name);
}

}  // namespace rankcast::base

/// True: the code fails here. `name` is a string literal, so that the names can be listed by a
/// search as well.
#define RANKCAST_FAULT_POINT(name) (::rankcast::base::fault_point("" name ""))
