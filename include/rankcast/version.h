// The version of the headers. `rankcast::library_version()` is that of the library that was loaded.
#pragma once

#include "rankcast/api.h"

#define RANKCAST_VERSION_MAJOR 0
#define RANKCAST_VERSION_MINOR 1
#define RANKCAST_VERSION_PATCH 0
#define RANKCAST_VERSION_STRING "0.1.0"

namespace rankcast {

/// "major.minor.patch" of the loaded library; static storage.
RANKCAST_API const char* library_version() noexcept;

}  // namespace rankcast
