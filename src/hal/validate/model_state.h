#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/validate/shadow.h"
#include "holdfast/hal/validate/violation.h"

namespace holdfast::hal {

// What a ValidationModel knows: of queues, things and Buffers, and what it keeps alive.
struct ModelState {
  ModelState(size_t queue_count, ViolationHandler h);

  struct QueueState {
    // The list with this value, if the host does not know it to be over.
    const ListRecord* find(uint64_t value) const noexcept {
      if (in_flight.empty() || value < in_flight.front()->value) return nullptr;
      const uint64_t index = value - in_flight.front()->value;
      return index < in_flight.size() ? in_flight[index].get() : nullptr;
    }

    std::shared_ptr<const std::string> name;
    bool is_named = false;
    TimelineId timeline;
    uint64_t last_value = 0;
    QueueClock last;  // of the last list
    // Submitted and not known over by the host: consecutive values.
    std::deque<std::shared_ptr<const ListRecord>> in_flight;
    Journal journal;  // of the last list
    QueueClock before_journal;
  };
  struct HostAccess {
    std::shared_ptr<Thing> allocation;
    uint64_t begin;
    uint64_t end;
    Access access;
    std::string name;
  };
  struct Kept {
    std::variant<KeptResource, Ref<Buffer>> what;
    QueueClock until;
  };

  mutable sync::LeafMutex mutex;  // guards all of it
  ViolationHandler handler HOLDFAST_GUARDED_BY(mutex);
  std::vector<QueueState> queues HOLDFAST_GUARDED_BY(mutex);
  QueueClock host HOLDFAST_GUARDED_BY(mutex);     // what the host knows
  QueueClock outside HOLDFAST_GUARDED_BY(mutex);  // what went out by exported Points
  std::shared_ptr<const ListName> last_submitted HOLDFAST_GUARDED_BY(mutex);
  uint64_t submissions HOLDFAST_GUARDED_BY(mutex) = 0;

  std::unordered_map<ResourceId, std::shared_ptr<Thing>> things
      HOLDFAST_GUARDED_BY(mutex);  // those not destroyed yet
  std::unordered_map<ResourceId, std::shared_ptr<Thing>> gone
      HOLDFAST_GUARDED_BY(mutex);  // the last of the others
  std::deque<ResourceId> gone_order HOLDFAST_GUARDED_BY(mutex);
  ResourceId forgotten
      HOLDFAST_GUARDED_BY(mutex);               // the newest that is gone and has no name any more
  ResourceId first HOLDFAST_GUARDED_BY(mutex);  // the first id that was ever told
  std::unordered_map<const void*, std::shared_ptr<Thing>> programs
      HOLDFAST_GUARDED_BY(mutex);  // both kinds, by address
  std::unordered_map<BufferId, std::shared_ptr<Shadow>> shadows HOLDFAST_GUARDED_BY(mutex);
  std::vector<HostAccess> host_accesses HOLDFAST_GUARDED_BY(mutex);  // open ones
  std::vector<Kept> kept HOLDFAST_GUARDED_BY(mutex);                 // for lists in flight
  std::vector<Kept> released
      HOLDFAST_GUARDED_BY(mutex);  // not needed any more, to be dropped without the lock

  // Calls the handler, without the lock.
  void report(const std::vector<Violation>& found);

  void tell_locked(std::shared_ptr<Thing> thing) HOLDFAST_REQUIRES(mutex);
  bool is_gone_locked(ResourceId id) const HOLDFAST_REQUIRES(mutex);
  void forget_locked(const std::shared_ptr<Thing>& thing) HOLDFAST_REQUIRES(mutex);
  // When the host has seen all of these.
  QueueClock needed_until_locked(const Uses& uses) const HOLDFAST_REQUIRES(mutex);
  void saw_locked(uint32_t q, uint64_t value) HOLDFAST_REQUIRES(mutex);
  // Adds what is over once the Point is.
  void join_point_locked(QueueClock& clock, const Point& point) const HOLDFAST_REQUIRES(mutex);

 private:
  std::optional<uint32_t> queue_of_locked(const Timeline& timeline) const HOLDFAST_REQUIRES(mutex);
};

}  // namespace holdfast::hal
