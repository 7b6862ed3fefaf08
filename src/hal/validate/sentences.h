#pragma once

#include <string>
#include <string_view>

#include "holdfast/hal/validate/history.h"
#include "holdfast/hal/validate/violation.h"

// The validator's violations, in words.

namespace holdfast::hal {

// Where an access is seen from: a command's place, or the host now.
struct Observer {
  const AccessRecord* command = nullptr;  // null: the host
  const QueueClock* host = nullptr;
  std::string_view host_name;

  bool is_after(const AccessRecord& earlier) const noexcept {
    return command != nullptr ? earlier.is_before(*command) : earlier.is_known_to(*host);
  }
  bool is_same_command(const AccessRecord& other) const noexcept {
    return command != nullptr && other.list == command->list && other.command == command->command;
  }
  // "kernel 'rms' (command ...)", or "the host access 'map of x'".
  std::string describe() const;
};

// A part of an Allocation and what is done to it; the numbers count in the Buffer.
struct Touch {
  const Thing& allocation;
  uint64_t begin;
  uint64_t end;
  Access access;
};

// `earlier` touches the same bytes, and nothing orders the two.
Violation unordered(const Observer& who, const Touch& touch, const AccessRecord& earlier,
                    bool earlier_writes);
// The same, where the bytes were another life's: `before`.
Violation unordered_reuse(const Observer& who, const Touch& touch, const Thing& before,
                          const AccessRecord& earlier, bool earlier_writes);
// The bytes belong to the life `next` already.
Violation use_after_reuse(const Observer& who, const Touch& touch, const Thing& next);
// The host is at it: with an access of that name, of the same life or of another.
Violation while_host_touches(const Observer& who, const Touch& touch, std::string_view name,
                             const Thing& mapped, Access access, bool same_life);
Violation uninitialized(const Observer& who, const Touch& touch);
Violation partly_initialized(const Observer& who, const Touch& touch, uint64_t written);
Violation changed_parameters(const AccessRecord& who);
// A list needs what is destroyed; without a name, after a long time.
Violation destroyed_before(const std::string& who, const Thing& thing);
Violation destroyed_long_before(const std::string& who, const char* kind, ResourceId id);
// Something is destroyed that a list in flight needs.
Violation destroyed_in_flight(const Thing& thing, const AccessRecord& use);
Violation given_back_in_flight(const std::string& buffer, const AccessRecord& use);

}  // namespace holdfast::hal
