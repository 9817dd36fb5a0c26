#include "rankcast/error.h"

#include <string>

namespace rankcast {

std::string_view error_code_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::stale_tensor:
      return "stale_tensor";
    case ErrorCode::foreign_tensor:
      return "foreign_tensor";
    case ErrorCode::wrong_rank:
      return "wrong_rank";
    case ErrorCode::undefined_contents:
      return "undefined_contents";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::ring_capacity:
      return "ring_capacity";
    case ErrorCode::deadline_exceeded:
      return "deadline_exceeded";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::task_failed:
      return "task_failed";
    case ErrorCode::rank_lost:
      return "rank_lost";
    case ErrorCode::closed:
      return "closed";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, const std::string& message, ErrorFields fields)
    : std::runtime_error(message), code_(code), fields_(fields) {}

// Here, so that the library holds the one type_info and vtable that every catch refers to.
Error::~Error() = default;

}  // namespace rankcast
