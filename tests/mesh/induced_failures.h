// Each way to fail that docs/errors.md lists, done on purpose.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rankcast/error.h"

namespace rankcast::test {

struct Induced {
  /// Of the error that `fail` throws; nothing where it returns a message instead.
  std::optional<ErrorCode> code;
  std::string title;
  std::function<std::string()> fail;
};

std::vector<Induced> induced_failures();

}  // namespace rankcast::test
