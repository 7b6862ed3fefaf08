#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>

#include "holdfast/c/call.h"

namespace holdfast::c {
namespace {

// The words of a thread's last failure. `text` owns whatever does not fit in `room`. Threads call
// into here even while their thread-locals go (atexit handlers of main, other libraries'
// destructors), so what is looked at has no destructor; Cleaner frees the text, and what is said
// after it is cut to the room.
struct LastError {
  hf_status status;
  bool cleaned;
  char* text;
  char room[512];
};
constinit thread_local LastError last_error{};

struct Cleaner {
  ~Cleaner() {
    delete[] std::exchange(last_error.text, nullptr);
    last_error.cleaned = true;
  }
};

void remember(hf_status status, const char* message) noexcept {
  last_error.status = status;
  delete[] std::exchange(last_error.text, nullptr);
  const size_t length = std::strlen(message);
  const size_t cut = std::min(length, sizeof last_error.room - 1);
  std::memcpy(last_error.room, message, cut);
  last_error.room[cut] = '\0';
  if (cut == length || last_error.cleaned) return;
  thread_local Cleaner cleaner;
  (void)cleaner;
  last_error.text = new (std::nothrow) char[length + 1];
  if (last_error.text != nullptr) std::memcpy(last_error.text, message, length + 1);
}

hf_status status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::usage: return HF_ERROR_USAGE;
    case ErrorCode::unsupported: return HF_ERROR_UNSUPPORTED;
    case ErrorCode::out_of_memory: return HF_ERROR_OUT_OF_MEMORY;
    case ErrorCode::execution: return HF_ERROR_EXECUTION;
    case ErrorCode::device_lost: return HF_ERROR_DEVICE_LOST;
    case ErrorCode::closed: return HF_ERROR_CLOSED;
    case ErrorCode::timeout: return HF_ERROR_TIMEOUT;
    case ErrorCode::interrupted: return HF_ERROR_INTERRUPTED;
    case ErrorCode::environment: return HF_ERROR_ENVIRONMENT;
  }
  return HF_ERROR_UNKNOWN;
}

}  // namespace

hf_status fail(hf_status status, const std::string& message) noexcept {
  remember(status, message.c_str());
  return status;
}

hf_status fail_by_exception(const char* function) noexcept {
  hf_status status = HF_ERROR_UNKNOWN;
  try {
    try {
      throw;
    } catch (const ArgumentError& error) {
      return fail(HF_ERROR_USAGE, fmt::format("{}: {}", function, error.what()));
    } catch (const Error& error) {
      status = status_of(error.code());
      remember(status, error.what());
    } catch (const std::bad_alloc&) {
      status = HF_ERROR_OUT_OF_MEMORY;
      remember(status, "the host has no memory left");
    } catch (const std::exception& error) {
      remember(status, fmt::format("{}: {}", function, error.what()).c_str());
    } catch (...) {
      remember(status, "an exception of an unknown kind");
    }
  } catch (...) {
    status = HF_ERROR_OUT_OF_MEMORY;
    remember(status, "the host has no memory left, not even for the words of an error");
  }
  return status;
}

}  // namespace holdfast::c

const char* hf_last_error(void) {
  using holdfast::c::last_error;
  return last_error.text != nullptr ? last_error.text : last_error.room;
}

hf_status hf_last_status(void) { return holdfast::c::last_error.status; }

const char* hf_status_name(hf_status status) {
  using holdfast::ErrorCode;
  if (status == HF_OK) return "ok";
  for (int code = 0; code <= static_cast<int>(ErrorCode::environment); ++code) {
    if (holdfast::c::status_of(static_cast<ErrorCode>(code)) == status) {
      return holdfast::to_string(static_cast<ErrorCode>(code));
    }
  }
  return "unknown";
}
