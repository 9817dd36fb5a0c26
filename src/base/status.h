// Failure as a value: what crosses a link or a folder boundary. Exceptions are made of it only at
// the public API.
#pragma once

#include <fmt/core.h>
#include <tl/expected.hpp>

#include <string>
#include <type_traits>
#include <utility>

#include "rankcast/error.h"

namespace rankcast::base {

/// Success, or one failure with its code, its text and where it belongs. A default Status is
/// success and allocates nothing. A plain value: no thread rules.
struct Status {
  ErrorCode code{};   ///< Meaningless (zero, which is no code) on success.
  int rank = -1;      ///< The rank concerned; -1: none.
  int argument = -1;  ///< The argument concerned; -1: none.
  std::string text;   ///< What failed, what was found, what to do.

  bool ok() const noexcept { return code == ErrorCode{}; }

  /// The same failure, said to belong to `on_rank` (or to argument `at`).
  Status&& with_rank(int on_rank) && {
    rank = on_rank;
    return std::move(*this);
  }
  Status&& with_argument(int at) && {
    argument = at;
    return std::move(*this);
  }
};

/// A value or the failure that stood in its way.
template <class T>
using Result = tl::expected<T, Status>;

/// A failure whose text is formatted as by fmt. Allocates; for paths that have failed already.
template <class... Args>
Status failure(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  Status status;
  status.code = code;
  status.text = fmt::format(format, std::forward<Args>(args)...);
  return status;
}

/// The same as the failed side of a Result: `return unexpected_failure(...)` in a function
/// returning Result<T>.
template <class... Args>
tl::unexpected<Status> unexpected_failure(ErrorCode code, fmt::format_string<Args...> format,
                                          Args&&... args) {
  return tl::unexpected<Status>(failure(code, format, std::forward<Args>(args)...));
}

/// Throws the rankcast::Error with this code, text, rank and argument. Must not be called with
/// success.
[[noreturn]] void throw_error(Status status);

/// Throws if `status` is a failure.
inline void throw_if_failed(Status status) {
  if (!status.ok()) throw_error(std::move(status));
}

/// The value, or the failure thrown.
template <class T>
T value_or_throw(Result<T>&& result) {
  if (!result) throw_error(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace rankcast::base
