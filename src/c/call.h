#pragma once

#include <string>
#include <utility>

#include "holdfast/base/error.h"
#include "holdfast/c/base.h"

namespace holdfast::c {

// What is wrong with an argument, for what no C++ caller could do. The message begins with the name
// of the function that was called.
class ArgumentError : public UsageError {
 public:
  using UsageError::UsageError;
};

// Remembers the words for hf_last_error(); returns the status.
hf_status fail(hf_status status, const std::string& message) noexcept;
// The same for the exception being handled, in the function of that name.
hf_status fail_by_exception(const char* function) noexcept;

// The body of a function of the C API: no exception leaves it.
template <typename F>
hf_status call(const char* function, F&& body) noexcept {
  try {
    std::forward<F>(body)();
    return HF_OK;
  } catch (...) {
    return fail_by_exception(function);
  }
}

}  // namespace holdfast::c
