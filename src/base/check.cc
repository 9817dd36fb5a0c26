#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace rankcast::base {

void check_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace rankcast::base
