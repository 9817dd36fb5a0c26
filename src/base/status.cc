#include "base/status.h"

#include "base/check.h"

namespace rankcast::base {

void throw_error(Status status) {
  RC_CHECK(!status.ok());
  ErrorFields fields;
  if (status.rank >= 0) fields.rank = status.rank;
  if (status.argument >= 0) fields.argument = status.argument;
  throw Error(status.code, status.text, fields);
}

}  // namespace rankcast::base
