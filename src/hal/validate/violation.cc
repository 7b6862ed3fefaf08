#include "holdfast/hal/validate/violation.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace holdfast::hal {

const char* to_string(ViolationKind kind) {
  switch (kind) {
    case ViolationKind::use_after_free: return "use after free";
    case ViolationKind::unordered_reuse: return "unordered reuse";
    case ViolationKind::unordered_access: return "unordered access";
    case ViolationKind::unordered_host: return "unordered host access";
    case ViolationKind::uninitialized_read: return "uninitialized read";
    case ViolationKind::partly_initialized: return "partly initialized read";
    case ViolationKind::changed_parameters: return "changed parameters";
  }
  return "unknown";
}

void print_and_abort(const Violation& violation) {
  static std::atomic<unsigned> printed{0};
  const unsigned bit = 1U << static_cast<unsigned>(violation.kind);
  if ((printed.fetch_or(bit) & bit) == 0) {
    fmt::print(stderr, "holdfast validate: {}{}: {}\n", violation.is_note() ? "note: " : "",
               to_string(violation.kind), violation.message);
    std::fflush(stderr);
  }
  if (!violation.is_note()) std::abort();
}

}  // namespace holdfast::hal
