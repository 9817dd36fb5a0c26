// The factories of the links of this build; each source shows nothing else.
#pragma once

#include <memory>

#include "base/status.h"
#include "link/link.h"

namespace rankcast::link {

base::Result<std::unique_ptr<Link>> create_thread_link(const LinkOptions& options);
base::Result<std::unique_ptr<Link>> create_process_link(const LinkOptions& options);

}  // namespace rankcast::link
