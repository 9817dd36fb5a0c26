// Which process this is: a forked child must not use what its parent's threads serve.
#pragma once

#include <cstdint>

namespace rankcast::base {

/// A number that changes in a child of fork, and nowhere else: of every fork after the first call.
/// Any thread; two plain loads.
std::uint64_t process_generation() noexcept;

}  // namespace rankcast::base
