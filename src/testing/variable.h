#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace holdfast::testing {

// Sets a variable of the environment for a scope; null unsets it. No other thread may read the
// environment meanwhile.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;  // NOLINT(concurrency-mt-unsafe)
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) {
    if (value != nullptr) {
      ::setenv(name_, value, 1);  // NOLINT(concurrency-mt-unsafe)
    } else {
      ::unsetenv(name_);  // NOLINT(concurrency-mt-unsafe)
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace holdfast::testing
