#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "holdfast/hal/queue.h"
#include "holdfast/hal/validate/violation.h"

namespace holdfast::hal {

struct ModelState;

// The happens-before model behind ValidateDevice. It executes nothing and asks no clock.
//
// Agents are the device's queues and the host. A list's clock is the join of: the list before it on
// its queue, every list it waits for, and what the host knew when it submitted it. The host knows a
// list once it has seen its Point resolved (noted by retire, query and wait alike) and with it all
// that list knew. Commands of one list are ordered only by a barrier between them; lists of one
// queue are; a host access is ordered before every list submitted after it ended, and after every
// list that the host knows. A wait for an imported Point counts as one for every Point exported so
// far; a wait for a host-signalled Point orders nothing, beyond what the host knows already when
// the list is submitted.
//
// For each byte of each Buffer it keeps the last write, the reads since, and the life (Allocation
// id) in which they happened. A life ends where its bytes begin another one. Objects that were made
// before the model, and so never told to it, are trusted.
//
// Thread-safe; holds its own lock for memory operations only. Handlers are called with that lock
// free, on the task that called.
class ValidationModel {
 public:
  ValidationModel(size_t queues, ViolationHandler handler);
  // Lets go of all it has kept.
  ~ValidationModel();

  void set_handler(ViolationHandler handler);

  // Lives. A Resource is known by its id from born() or made() to its destruction.
  void born(const Allocation& allocation);
  void died(const Allocation& allocation);
  void made(const Resource& resource);  // a Pipeline or a Program
  // About to be destroyed: whether a list in flight still needs it, which is reported once; the
  // model has then kept it.
  bool keeps(const Resource& resource);
  bool keeps(Buffer& buffer);

  // Checks the list as the next one of `queue` and, if nothing condemns it, enters its accesses.
  // A failure: the violation that condemns it.
  Failure submit(uint32_t queue, const Work& work);
  // The inner device refused it after all: takes back what submit() entered last on that queue.
  void refused(uint32_t queue, const Work& work);
  // The host has seen that value of the queue resolved.
  void host_saw(uint32_t queue, TimelineValue value);
  // A descriptor for the Point went out; see above.
  void exported(const Point& point);
  // Drops what was kept for lists that the host has seen since. That may destroy, so it is no part
  // of host_saw, which callers with locks of their own lead to.
  void let_go();

  void host_access_begins(const Allocation& allocation, ByteRange range, Access access,
                          std::string_view name);
  void host_access_ends(const Allocation& allocation, ByteRange range, Access access);

  // For tests of its memory: the intervals of all Buffers, and lists that are remembered in flight.
  size_t interval_count() const;
  size_t lists_in_flight() const;

 private:
  std::unique_ptr<ModelState> state_;
};

}  // namespace holdfast::hal
