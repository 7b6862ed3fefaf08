#pragma once

#include <cstdint>
#include <source_location>

#pragma GCC visibility push(default)

namespace holdfast::sync {

// The order in which a task takes locks: each comes after those that the task holds, so no two
// tasks can wait for each other. A LeafMutex comes after all. docs/architecture.md says what each
// one guards.
enum class LockOrder : uint8_t {
  outermost,  // held by whoever calls the library: tests
  retirement,
  recorder,
  history,    // several at a time, by ascending place
  in_flight,  // a queue's lists
  allocator,
  profiler,  // a GPU's; below it is the profile that it adds to
  alone,     // most mutexes: nothing but a loss is taken while one is held
  loss,      // what ended a device; whoever meets the end takes it, whatever else is held
  unchecked  // for tests of what a wrong order does
};

// Which mutex it is, for the check below. A place tells apart those of one order that a task may
// hold together.
struct LockRank {
  LockOrder order = LockOrder::alone;
  uint8_t place = 0;  // below 64
};

#ifdef HOLDFAST_LOCK_ORDER
// The check itself, in builds that ask for it (HOLDFAST_LOCK_ORDER: the dev preset and the
// sanitizers'). A task that breaks the order ends the process with a report of both locks, whether
// or not another task was in its way.
void check_and_note_taken(LockRank rank, const std::source_location& where) noexcept;
void note_given(LockRank rank) noexcept;
// Whoever waits for a change lets go of the lock that guards it, and must hold no other.
void check_only_held(LockRank rank, const std::source_location& where) noexcept;
#else
inline void check_and_note_taken(LockRank, const std::source_location&) noexcept {}
inline void note_given(LockRank) noexcept {}
inline void check_only_held(LockRank, const std::source_location&) noexcept {}
#endif

}  // namespace holdfast::sync

#pragma GCC visibility pop
