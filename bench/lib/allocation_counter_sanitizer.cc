// In a sanitizer's build operator new is the sanitizer's own. It calls a hook at every allocation:
// malloc counts as well, which is never less.
#include <sanitizer/allocator_interface.h>

#include <cstddef>

#include "bench/lib/allocation_counter.h"

namespace rankcast::bench {

namespace {

thread_local std::uint64_t allocations = 0;

__attribute__((no_sanitize("address", "thread"))) void count(const volatile void* /*memory*/,
                                                             std::size_t /*bytes*/) {
  ++allocations;
}

void ignore(const volatile void* /*memory*/) {}

[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(count, ignore);

}  // namespace

std::uint64_t allocations_of_this_thread() noexcept { return allocations; }

}  // namespace rankcast::bench
