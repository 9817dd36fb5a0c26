// Asserts that a call throws a rankcast::Error with a code and with words in its message.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "rankcast/error.h"

namespace rankcast::test {

/// What `call` throws, or nothing after a failure was noted.
template <class Call>
std::optional<Error> error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw no rankcast::Error but: " << error.what();
    return std::nullopt;
  }
  ADD_FAILURE() << "threw nothing";
  return std::nullopt;
}

/// `call` throws an Error with `code` whose message has each of `words`.
template <class Call>
void expect_error(ErrorCode code, std::initializer_list<std::string> words, Call&& call) {
  const std::optional<Error> error = error_of(call);
  if (!error) return;
  EXPECT_EQ(error_code_name(error->code()), error_code_name(code)) << error->what();
  for (const std::string& word : words) {
    EXPECT_THAT(error->what(), testing::HasSubstr(word));
  }
}

}  // namespace rankcast::test
