#include "holdfast/hal/ticket.h"

#include <algorithm>
#include <cassert>

namespace holdfast::hal {

const char* to_string(TicketState state) {
  switch (state) {
    case TicketState::open: return "open";
    case TicketState::submitted: return "submitted";
    case TicketState::seen: return "seen";
    case TicketState::abandoned: return "abandoned";
  }
  return "unknown";
}

void Ticket::mark_submitted(Point point) {
  assert(state() == TicketState::open);
  point_ = std::move(point);
  state_.store(TicketState::submitted, std::memory_order_release);
}

void Ticket::mark_seen(Failure failure) {
  assert(state() == TicketState::submitted);
  failure_ = std::move(failure);
  state_.store(TicketState::seen, std::memory_order_release);
}

void Ticket::mark_abandoned(Failure failure) {
  assert(state() == TicketState::open);
  failure_ = std::move(failure);
  state_.store(TicketState::abandoned, std::memory_order_release);
}

void Frontier::add(const Ref<Ticket>& ticket) {
  if (ticket->is_over()) return;
  for (size_t i = 0; i < tickets_.size();) {
    const Ticket& present = *tickets_[i];
    if (present.list() == ticket->list()) return;
    if (present.lane() != ticket->lane()) {
      ++i;
      continue;
    }
    const bool newer = present.list() < ticket->list();
    const Ticket& later = newer ? *ticket : present;
    // A later list vouches for an earlier one only once it is sure to run.
    const bool vouches = later.state() == TicketState::submitted;
    if (!newer && vouches) return;
    if (present.is_over() || (newer && vouches)) {
      tickets_.erase(tickets_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  tickets_.push_back(ticket);
}

void Frontier::add(const Frontier& other) {
  for (const Ref<Ticket>& ticket : other) add(ticket);
}

void Frontier::prune() {
  tickets_.erase(std::remove_if(tickets_.begin(), tickets_.end(),
                                [](const Ref<Ticket>& t) { return t->is_over(); }),
                 tickets_.end());
}

}  // namespace holdfast::hal
