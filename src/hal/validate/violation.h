#pragma once

#include <functional>
#include <string>

namespace holdfast::hal {

enum class ViolationKind : unsigned {
  use_after_free,      // a list needs a Resource that is destroyed, or is being destroyed
  unordered_reuse,     // a range's next life begins with no order after its last one
  unordered_access,    // two commands conflict in bytes and nothing orders them
  unordered_host,      // a host access and a command conflict and nothing orders them
  uninitialized_read,  // a range is read of which this life has written nothing
  partly_initialized,  // a note: only part of what is read was written
  changed_parameters,  // a command's parameters are not those it was recorded with
};
inline constexpr unsigned kViolationKinds = 7;
const char* to_string(ViolationKind kind);

struct Violation {
  ViolationKind kind = ViolationKind::use_after_free;
  // One or two sentences with names: the object (user's name, id, size), the kernel, list and index
  // that needs it, where it was made and where it died, and the order that is missing.
  std::string message;

  // A note condemns nothing and fails no test.
  bool is_note() const noexcept { return kind == ViolationKind::partly_initialized; }
};

// Called on the task that was found out, where it was: the runtime's locks may be held, so it may
// neither wait nor call the runtime. Must not throw.
using ViolationHandler = std::function<void(const Violation&)>;

// Prints each kind's first violation to standard error, then ends the process with abort(), so that
// a test cannot pass; a note is printed once and ends nothing.
void print_and_abort(const Violation& violation);

}  // namespace holdfast::hal
