#include "bench/lib/allocation_counter.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t allocations = 0;

void* counted_allocation(std::size_t bytes, std::size_t alignment) noexcept {
  ++allocations;
  bytes = std::max<std::size_t>(bytes, 1);
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* counted_allocation_or_throw(std::size_t bytes, std::size_t alignment) {
  for (;;) {
    if (void* memory = counted_allocation(bytes, alignment)) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

namespace rankcast::bench {

std::uint64_t allocations_of_this_thread() noexcept { return allocations; }

}  // namespace rankcast::bench

// The array and nothrow forms of the standard library call these.
void* operator new(std::size_t bytes) { return counted_allocation_or_throw(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_allocation_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
