#include "rankcast/version.h"

namespace rankcast {

const char* library_version() noexcept { return RANKCAST_VERSION_STRING; }

}  // namespace rankcast
