#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>

#include "holdfast/base/ref.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/timeline.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

enum class TicketState {
  open,       // being recorded: it has no Point yet
  submitted,  // it has a Point
  seen,       // its Point was seen reached or failed, and its Holds may drop
  abandoned   // it will never run; counts as seen
};
const char* to_string(TicketState state);

class Ticket;

// Something that waits for a Ticket to be seen: the links of an intrusive list whose head is in
// the Ticket. Guarded by the mutex of whoever keeps such a list (the runtime's allocator).
struct TicketWaiter {
  Ticket* ticket = nullptr;
  TicketWaiter* previous = nullptr;
  TicketWaiter* next = nullptr;
};

// A list's place in time. States only advance. Thread-safe, except for `waiters`.
class Ticket final : public RefCounted {
 public:
  Ticket(ListId list, LaneId lane) noexcept : list_(list), lane_(lane) {}

  ListId list() const noexcept { return list_; }
  LaneId lane() const noexcept { return lane_; }
  TicketState state() const noexcept { return state_.load(std::memory_order_acquire); }
  // Seen or abandoned: nothing that this list needed is needed any more.
  bool is_over() const noexcept { return state() >= TicketState::seen; }

  // Only once submitted.
  const Point& point() const noexcept { return point_; }
  // Why it failed, once it is over; none where it succeeded, and none before.
  Failure failure() const { return is_over() ? failure_ : Failure(); }
  bool has_failed() const noexcept { return is_over() && failure_; }
  // Why some of these bytes, which the list writes, are bad: known once the list is over, none if
  // they are good. If nobody could tell which bytes of a failed list are bad, all of them are.
  Failure failure_of(ResourceId allocation, ByteRange range) const;

  // Each is called once, by the one who made the change: the queue or the owner of the list.
  void mark_submitted(Point point);
  void mark_seen(Failure failure, std::shared_ptr<const Damage> damage = nullptr);
  void mark_abandoned(Failure failure);

  // Guarded by the mutex of the list's keeper; see TicketWaiter.
  TicketWaiter* waiters = nullptr;

 private:
  ListId list_;
  LaneId lane_;
  std::atomic<TicketState> state_{TicketState::open};
  Point point_;
  Failure failure_;
  std::shared_ptr<const Damage> damage_;
};

// A small set of Tickets: "when all of this is done". Lists of a lane finish in order, so it keeps
// only the newest ticket of each lane and, while that one may still be abandoned, the newest
// submitted one. Not thread-safe.
class Frontier {
 public:
  // Cost: a scan of the set, which has at most two tickets a lane and, once pruned, beyond a few,
  // one submitted ticket a queue.
  void add(Ref<Ticket> ticket) {
    if (tickets_.empty()) {
      if (!ticket->is_over()) tickets_.push_back(std::move(ticket));
    } else if (tickets_.size() > 1 || tickets_[0] != ticket) {
      add_further(std::move(ticket));
    }
  }
  void add(const Frontier& other);
  // Drops what is over.
  void prune();
  bool empty() const noexcept { return tickets_.empty(); }
  // Prunes, then says whether nothing is left.
  bool is_over() {
    prune();
    return empty();
  }
  void clear() noexcept { tickets_.clear(); }
  // Whether all of them are the lane's.
  bool is_of(LaneId lane) const noexcept {
    for (const Ref<Ticket>& ticket : tickets_) {
      if (ticket->lane() != lane) return false;
    }
    return true;
  }
  auto begin() const noexcept { return tickets_.begin(); }
  auto end() const noexcept { return tickets_.end(); }
  size_t size() const noexcept { return tickets_.size(); }

 private:
  void add_further(Ref<Ticket> ticket);
  boost::container::small_vector<Ref<Ticket>, 2> tickets_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
