#include "holdfast/hal/ticket.h"

#include <algorithm>
#include <cassert>

#include "holdfast/hal/damage.h"

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

void Ticket::mark_seen(Failure failure, std::shared_ptr<const Damage> damage) {
  assert(state() == TicketState::submitted);
  failure_ = std::move(failure);
  damage_ = std::move(damage);
  state_.store(TicketState::seen, std::memory_order_release);
}

void Ticket::mark_abandoned(Failure failure) {
  assert(state() == TicketState::open);
  failure_ = std::move(failure);
  state_.store(TicketState::abandoned, std::memory_order_release);
}

Failure Ticket::failure_of(ResourceId allocation, ByteRange range) const {
  if (!has_failed()) return {};
  return damage_ ? damage_->find(allocation, range) : failure_;
}

void Frontier::add(const Ref<Ticket>& ticket) {
  if (ticket->is_over()) return;
  // A submitted list vouches for the earlier ones of its lane; an open one may yet be abandoned and
  // vouches for nobody.
  ListId vouching = ticket->state() == TicketState::submitted ? ticket->list() : ListId{};
  for (const Ref<Ticket>& present : tickets_) {
    if (present == ticket) return;
    if (present->lane() == ticket->lane() && present->state() == TicketState::submitted) {
      vouching = std::max(vouching, present->list());
    }
  }
  tickets_.erase(std::remove_if(tickets_.begin(), tickets_.end(),
                                [&](const Ref<Ticket>& present) {
                                  return present->is_over() || (present->lane() == ticket->lane() &&
                                                                present->list() < vouching);
                                }),
                 tickets_.end());
  if (ticket->list() >= vouching) tickets_.push_back(ticket);
}

void Frontier::add(const Frontier& other) {
  if (&other == this) return;
  for (const Ref<Ticket>& ticket : other) add(ticket);
}

void Frontier::prune() {
  tickets_.erase(std::remove_if(tickets_.begin(), tickets_.end(),
                                [](const Ref<Ticket>& t) { return t->is_over(); }),
                 tickets_.end());
}

}  // namespace holdfast::hal
