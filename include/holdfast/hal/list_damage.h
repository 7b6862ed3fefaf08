#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "holdfast/hal/damage.h"
#include "holdfast/hal/queue.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// Follows one list through a device. Says which commands must not run, because bytes that they read
// are bad, and which bytes are bad in the end. For devices that learn of a failure before the
// commands that depend on it run; other devices fail the list as a whole.
//
//   ListDamage damage(work);
//   damage.wait_failed(...);          for each failed wait, once all of them are resolved
//   if (!damage.forbids_all())        wave after wave:
//     damage.enter(command)           before each command; if false, do not run it
//     damage.fail(command, cause)     for each command that failed
//   timeline.fail(value, damage.finish())    or signal, if finish() returns no failure
//
// A command reads and writes what it declares, whatever its grid. Its writes are bad if it failed
// or if a byte that it reads is bad. Bytes that a good command overwrites are good again. Commands
// of a wave do not conflict, so the order in which they run makes no difference.
//
// Costs nothing while nothing fails. Not thread-safe.
class ListDamage {
 public:
  // The work stays alive and unchanged until finish() has returned.
  explicit ListDamage(const Work& work) noexcept : work_(work) {}

  // Wait number `index` of the work has failed like this; does nothing for an order wait.
  void wait_failed(size_t index, const ListFailure& failure);
  // Whether no command of the list may run, because neither a failed data wait nor its failure
  // names bytes.
  bool forbids_all() const noexcept { return static_cast<bool>(whole_); }
  // Whether any bytes are bad. While none are, enter() always returns true.
  bool any() const noexcept { return !bad_.empty(); }

  // Whether the command may run. Call it once for each command, in recorded order, when all
  // failures of earlier waves are known.
  [[nodiscard]] bool enter(const Command& command) {
    return bad_.empty() || enter_damaged(command);
  }
  // A command that was entered has failed.
  void fail(const Command& command, const Failure& cause);

  // How the list ends; none if it ends well. The cause is that of the first command, in recorded
  // order, that failed or could not run.
  ListFailure finish();

 private:
  bool enter_damaged(const Command& command);
  void take(ResourceId allocation, ByteRange range, const Failure& cause, bool answers);

  const Work& work_;
  Failure whole_;
  Damage bad_;  // to the commands that come next
  Damage own_;  // of these, what the list's own Point answers for
  const Command* first_ = nullptr;
  Failure first_cause_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
