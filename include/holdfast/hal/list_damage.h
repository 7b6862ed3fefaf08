#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "holdfast/hal/damage.h"
#include "holdfast/hal/queue.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// Follows one list on its way through a device: which commands must not run, because bytes that
// they read are bad, and which bytes are bad in the end. For devices that learn of failures before
// the commands that depend on them run; one that does not fails its list as a whole.
//
//   ListDamage damage(work);
//   damage.wait_failed(...);          for each failed wait, once all of them are resolved
//   if (!damage.forbids_all())        wave after wave:
//     damage.enter(command)           before each command; where it says no, the command does not
//     run damage.fail(command, cause)     for each that failed
//   timeline.fail(value, damage.finish())    or signal, where that is none
//
// A command reads and writes what it declares, whatever its grid. Its writes are bad where it
// failed itself or where a byte that it reads is bad; bytes that a good one overwrites are good
// again. Commands of a wave do not conflict, so the order in which they run makes no difference.
//
// Costs nothing while nothing fails. Not thread-safe.
class ListDamage {
 public:
  // The work stays alive and unchanged until finish() has returned.
  explicit ListDamage(const Work& work) noexcept : work_(work) {}

  // Wait number `index` of the work has failed like this; does nothing for an order wait.
  void wait_failed(size_t index, const ListFailure& failure);
  // Whether nothing of the list may run: a failed data wait names no bytes, and neither does the
  // failure.
  bool forbids_all() const noexcept { return static_cast<bool>(whole_); }
  // Whether bytes are bad. While none are, enter() always says yes.
  bool any() const noexcept { return !bad_.empty(); }

  // In recorded order, each command once, with all failures of the waves before it known. Whether
  // it may run.
  [[nodiscard]] bool enter(const Command& command) {
    return bad_.empty() || enter_damaged(command);
  }
  // A command that was entered has failed.
  void fail(const Command& command, const Failure& cause);

  // How the list ends; none: well. The cause is that of the first command, in recorded order, that
  // failed or could not run.
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
