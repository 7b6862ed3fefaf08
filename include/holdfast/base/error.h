#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#pragma GCC visibility push(default)

namespace holdfast {

enum class ErrorCode {
  usage,          // the caller asked for something the contract forbids
  unsupported,    // the device cannot do it
  out_of_memory,  // no memory within the limits, after all that could be freed was
  execution,      // a command failed while executing
  device_lost,    // the device is gone; everything pending on it failed
  closed,         // the object was closed or dropped before the work could run
  timeout,        // a wait reached its time limit
  interrupted,    // a wait was interrupted
  environment,    // the process's surroundings refused: a variable, a file, a thread
};
const char* to_string(ErrorCode code);

// What users catch. The message says what happened, to which named object, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

template <ErrorCode kCode>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& message) : Error(kCode, message) {}
};
using UsageError = ErrorOf<ErrorCode::usage>;
using UnsupportedError = ErrorOf<ErrorCode::unsupported>;
using OutOfMemoryError = ErrorOf<ErrorCode::out_of_memory>;
using ExecutionError = ErrorOf<ErrorCode::execution>;
using DeviceLostError = ErrorOf<ErrorCode::device_lost>;
using ClosedError = ErrorOf<ErrorCode::closed>;
using TimeoutError = ErrorOf<ErrorCode::timeout>;
using InterruptedError = ErrorOf<ErrorCode::interrupted>;
using EnvironmentError = ErrorOf<ErrorCode::environment>;

// A failure as a value: how devices and Points report. Cheap to copy and immutable; a
// default-constructed Failure means "none". Copies name the same cause.
class Failure {
 public:
  Failure() = default;
  Failure(ErrorCode code, std::string message);

  explicit operator bool() const noexcept { return cause_ != nullptr; }
  ErrorCode code() const { return cause_->code; }
  const std::string& message() const { return cause_->message; }
  // Throws the exception of the error hierarchy that belongs to the code.
  [[noreturn]] void raise() const;
  void raise_if_any() const {
    if (cause_) raise();
  }
  // Whether both name one cause, not merely equal words.
  friend bool operator==(const Failure& a, const Failure& b) noexcept = default;

 private:
  struct Cause {
    ErrorCode code;
    std::string message;
  };
  std::shared_ptr<const Cause> cause_;
};

// A T or the Failure to make one.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : content_(std::in_place_index<1>, std::move(failure)) {}

  bool ok() const noexcept { return content_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  // Only while ok().
  T& value() & { return std::get<0>(content_); }
  const T& value() const& { return std::get<0>(content_); }
  T&& value() && { return std::get<0>(std::move(content_)); }
  // None while ok().
  Failure failure() const { return ok() ? Failure() : std::get<1>(content_); }
  T or_raise() && {
    if (!ok()) std::get<1>(content_).raise();
    return std::get<0>(std::move(content_));
  }

 private:
  std::variant<T, Failure> content_;
};

}  // namespace holdfast

#pragma GCC visibility pop
