// An environment variable that a test sets.
#pragma once

#include <cstdlib>
#include <string>

namespace rankcast::test {

/// Sets it for a scope. No other thread may look at the environment at its ends.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

}  // namespace rankcast::test
