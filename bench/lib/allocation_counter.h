// Counts what the C++ heap is asked for: a program that links this has its global operator new
// replaced, or, in a sanitizer's build, watched.
#pragma once

#include <cstdint>

namespace rankcast::bench {

/// Calls of any operator new that this thread has made so far, in the program and in every library
/// it has loaded. Costs one thread-local read; counting costs an allocation one increment.
std::uint64_t allocations_of_this_thread() noexcept;

}  // namespace rankcast::bench
