#include "holdfast/base/error.h"

namespace holdfast {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage: return "usage";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::out_of_memory: return "out of memory";
    case ErrorCode::execution: return "execution";
    case ErrorCode::device_lost: return "device lost";
    case ErrorCode::closed: return "closed";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::interrupted: return "interrupted";
    case ErrorCode::environment: return "environment";
  }
  return "unknown";
}

Failure::Failure(ErrorCode code, std::string message)
    : cause_(std::make_shared<const Cause>(Cause{code, std::move(message)})) {}

void Failure::raise() const {
  switch (cause_->code) {
    case ErrorCode::usage: throw UsageError(cause_->message);
    case ErrorCode::unsupported: throw UnsupportedError(cause_->message);
    case ErrorCode::out_of_memory: throw OutOfMemoryError(cause_->message);
    case ErrorCode::execution: throw ExecutionError(cause_->message);
    case ErrorCode::device_lost: throw DeviceLostError(cause_->message);
    case ErrorCode::closed: throw ClosedError(cause_->message);
    case ErrorCode::timeout: throw TimeoutError(cause_->message);
    case ErrorCode::interrupted: throw InterruptedError(cause_->message);
    case ErrorCode::environment: throw EnvironmentError(cause_->message);
  }
  throw Error(cause_->code, cause_->message);
}

}  // namespace holdfast
