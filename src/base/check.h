// Assertions: for our own bugs, never for what a caller did.
//
// RC_CHECK  is always compiled in: one predictable branch; for what would otherwise damage memory.
// RC_DCHECK is compiled in only without NDEBUG: for what the tests should have caught.
// Both print the expression and its place to stderr and abort.
#pragma once

namespace rankcast::base {

/// Prints "file:line: check failed: expression" to stderr and aborts.
[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace rankcast::base

#define RC_CHECK(expression) \
  ((expression) ? (void)0 : ::rankcast::base::check_failed(#expression, __FILE__, __LINE__))

#ifdef NDEBUG
#define RC_DCHECK(expression) ((void)sizeof((expression) ? 1 : 0))
#else
#define RC_DCHECK(expression) RC_CHECK(expression)
#endif
