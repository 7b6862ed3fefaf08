#include "holdfast/hal/validate/sentences.h"

#include <fmt/format.h>

namespace holdfast::hal {
namespace {

// "bytes 0..4096".
std::string bytes(const Touch& touch) {
  const uint64_t base = touch.allocation.range.offset.value;
  return fmt::format("bytes {}..{}", touch.begin - base, touch.end - base);
}

const char* verb(Access access) {
  switch (access) {
    case Access::read: return "reads";
    case Access::write: return "writes";
    case Access::read_write: return "updates";
  }
  return "uses";
}

// "allocation 'a' (id 1, 4 B), created at src/x.cc:3 (it lost its last user ...)".
std::string story(const Thing& life) {
  const std::string end = life.end();
  return life.describe() + life.origin() + (end.empty() ? "" : " (" + end + ")");
}

// " (it lost its last user ...)".
std::string bracketed_end(const Thing& thing) {
  const std::string end = thing.end();
  return end.empty() ? "" : " (" + end + ")";
}

std::string may_still(const AccessRecord& earlier, bool writes) {
  return fmt::format("{} may still {} them", earlier.describe(), writes ? "write" : "read");
}

}  // namespace

std::string Observer::describe() const {
  return command != nullptr ? command->describe() : fmt::format("the host access '{}'", host_name);
}

Violation unordered(const Observer& who, const Touch& touch, const AccessRecord& earlier,
                    bool earlier_writes) {
  return {who.command == nullptr ? ViolationKind::unordered_host : ViolationKind::unordered_access,
          fmt::format("{} {} {} of {} while {}: nothing orders the two; {}", who.describe(),
                      verb(touch.access), bytes(touch), touch.allocation.describe(),
                      may_still(earlier, earlier_writes), earlier.advice(who.command))};
}

Violation unordered_reuse(const Observer& who, const Touch& touch, const Thing& before,
                          const AccessRecord& earlier, bool earlier_writes) {
  return {
      ViolationKind::unordered_reuse,
      fmt::format("{} {} {} of {}, which were {} before, while {}: nothing orders the two "
                  "lives; {}",
                  who.describe(), verb(touch.access), bytes(touch), story(touch.allocation),
                  story(before), may_still(earlier, earlier_writes), earlier.advice(who.command))};
}

Violation use_after_reuse(const Observer& who, const Touch& touch, const Thing& next) {
  return {ViolationKind::unordered_reuse,
          fmt::format("{} of {} are still used by {}, which {} them, although these bytes have "
                      "been given to {}; a range may be given out only to work that comes after "
                      "all that uses its earlier life",
                      bytes(touch), story(touch.allocation), who.describe(), verb(touch.access),
                      story(next))};
}

Violation while_host_touches(const Observer& who, const Touch& touch, std::string_view name,
                             const Thing& mapped, Access access, bool same_life) {
  return {same_life ? ViolationKind::unordered_host : ViolationKind::unordered_reuse,
          fmt::format("{} {} {} of {} while the host access '{}' still {} them{}: end that access "
                      "before the list is submitted",
                      who.describe(), verb(touch.access), bytes(touch),
                      same_life ? touch.allocation.describe() : story(touch.allocation), name,
                      verb(access), same_life ? "" : " as " + story(mapped))};
}

Violation uninitialized(const Observer& who, const Touch& touch) {
  return {ViolationKind::uninitialized_read,
          fmt::format("{} reads {} of {}{}, of which nothing was written since it was created",
                      who.describe(), bytes(touch), touch.allocation.describe(),
                      touch.allocation.origin())};
}

Violation partly_initialized(const Observer& who, const Touch& touch, uint64_t written) {
  return {ViolationKind::partly_initialized,
          fmt::format("{} reads {} of {}{}, of which only {} bytes were written since it was "
                      "created",
                      who.describe(), bytes(touch), touch.allocation.describe(),
                      touch.allocation.origin(), written)};
}

Violation changed_parameters(const AccessRecord& who) {
  return {ViolationKind::changed_parameters,
          fmt::format("the parameters of {} are not those it was recorded with: something has "
                      "written into them",
                      who.describe())};
}

Violation destroyed_before(const std::string& who, const Thing& thing) {
  return {ViolationKind::use_after_free,
          fmt::format("{} needs {}{}, which was destroyed before the list was submitted{}; hold it "
                      "in the list that uses it",
                      who, thing.describe(), thing.origin(), bracketed_end(thing))};
}

Violation destroyed_long_before(const std::string& who, const char* kind, ResourceId id) {
  return {
      ViolationKind::use_after_free,
      fmt::format("{} needs {} (id {}), which was destroyed long before the list was submitted; "
                  "hold it in the list that uses it",
                  who, kind, id.value)};
}

Violation destroyed_in_flight(const Thing& thing, const AccessRecord& use) {
  return {ViolationKind::use_after_free,
          fmt::format("{}{} is being destroyed while {} may still use it: the host has not seen {} "
                      "finished{}; it is kept until then",
                      thing.describe(), thing.origin(), use.describe(), use.list->point(),
                      bracketed_end(thing))};
}

Violation given_back_in_flight(const std::string& buffer, const AccessRecord& use) {
  return {ViolationKind::use_after_free,
          fmt::format("{} is given back to the device while {} may still use it: the host has not "
                      "seen {} finished; it is kept until then",
                      buffer, use.describe(), use.list->point())};
}

}  // namespace holdfast::hal
