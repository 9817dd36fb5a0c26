// The doctor's test of one link.
#pragma once

#include <chrono>
#include <string>

#include "tools/rankcast/check_list.h"

namespace rankcast::tools {

inline constexpr std::chrono::seconds kSelfTestLimit{5};

/// Opens two ranks, uploads to each, has each sum two tensors, looks at every element, and closes.
/// Ends within kSelfTestLimit: what has not ended then is left alone in a thread of its own, and
/// `stuck` says so: the caller has to end the process without waiting for it.
Check test_link(const std::string& link, bool* stuck);

}  // namespace rankcast::tools
