// The one exception type of the public API.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rankcast/api.h"

namespace rankcast {

/// What kind of failure this is. A caller branches on the code; a person reads the message.
enum class ErrorCode : std::uint8_t {
  invalid_argument = 1,  ///< The call itself is wrong; nothing was changed.
  stale_tensor,          ///< The tensor was freed; its handle can reach nothing any more.
  foreign_tensor,        ///< The tensor belongs to another mesh.
  wrong_rank,            ///< The tensor lives on another rank than the task that names it.
  undefined_contents,    ///< The buffer should have been written by a task that failed.
  out_of_memory,         ///< Memory, table space, threads or descriptors are exhausted.
  ring_capacity,         ///< The run cannot fit into a ring of a rank, however long it waits.
  deadline_exceeded,     ///< open, close or a blocked submit ran out of time.
  cancelled,             ///< The run was cancelled before this work started.
  task_failed,           ///< A kernel reported failure.
  rank_lost,             ///< A rank died.
  closed,                ///< The mesh is closed.
  unsupported,           ///< This link, device or processor cannot do it.
  internal,              ///< A bug in Rankcast or a damaged record.
};

/// "invalid_argument", "stale_tensor", ...; static storage.
RANKCAST_API std::string_view error_code_name(ErrorCode code) noexcept;

/// Where a failure belongs, as far as it is known.
struct ErrorFields {
  std::optional<int> rank = std::nullopt;      ///< The rank concerned.
  std::optional<int> argument = std::nullopt;  ///< Index of the argument of the task or call.
  std::optional<std::uint64_t> dispatch_id =
      std::nullopt;  ///< `Run::dispatch_id()` of the run concerned.
  std::optional<std::uint64_t> limit =
      std::nullopt;  ///< The limit that was met, in the unit that the message names.
};

/// Thrown by every public function that fails. The message says what failed, which argument of
/// which task on which rank, what was found and what to do. Copyable; safe to keep and to rethrow
/// from any thread.
class RANKCAST_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, ErrorFields fields = {});
  ~Error() override;
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;

  ErrorCode code() const noexcept { return code_; }
  const ErrorFields& fields() const noexcept { return fields_; }
  std::optional<int> rank() const noexcept { return fields_.rank; }
  std::optional<int> argument() const noexcept { return fields_.argument; }
  std::optional<std::uint64_t> dispatch_id() const noexcept { return fields_.dispatch_id; }
  std::optional<std::uint64_t> limit() const noexcept { return fields_.limit; }

 private:
  ErrorCode code_;
  ErrorFields fields_;
};

}  // namespace rankcast
