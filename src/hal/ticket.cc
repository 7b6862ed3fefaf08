#include "holdfast/hal/ticket.h"

#include <algorithm>
#include <cassert>

#include "holdfast/hal/damage.h"

namespace holdfast::hal {
namespace {

// Up to here a set is not worth looking through for tickets that others vouch for.
constexpr size_t kFewTickets = 8;

// Lists of one queue resolve and are seen in order, so the last of those submitted vouches for all,
// whichever lanes they belong to. Without it a set would grow with the streams that share an
// object.
template <typename Tickets>
void keep_newest_of_each_timeline(Tickets& tickets) {
  const auto timeline_of = [](const Ref<Ticket>& ticket) -> const Timeline* {
    const bool submitted = ticket->state() == TicketState::submitted;
    return submitted ? ticket->point().timeline.get() : nullptr;
  };
  boost::container::small_vector<std::pair<const Timeline*, TimelineValue>, 8> newest;
  for (const Ref<Ticket>& ticket : tickets) {
    const Timeline* const timeline = timeline_of(ticket);
    if (timeline == nullptr) continue;
    const auto known = std::find_if(newest.begin(), newest.end(),
                                    [&](const auto& n) { return n.first == timeline; });
    if (known == newest.end()) {
      newest.emplace_back(timeline, ticket->point().value);
    } else {
      known->second = std::max(known->second, ticket->point().value);
    }
  }
  const auto is_vouched_for = [&](const Ref<Ticket>& ticket) {
    const Timeline* const timeline = timeline_of(ticket);
    return std::any_of(newest.begin(), newest.end(), [&](const auto& n) {
      return n.first == timeline && ticket->point().value < n.second;
    });
  };
  tickets.erase(std::remove_if(tickets.begin(), tickets.end(), is_vouched_for), tickets.end());
}

}  // namespace

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

void Frontier::add_further(Ref<Ticket> ticket) {
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
  if (ticket->list() >= vouching) tickets_.push_back(std::move(ticket));
}

void Frontier::add(const Frontier& other) {
  if (&other == this) return;
  for (const Ref<Ticket>& ticket : other) add(ticket);
}

void Frontier::prune() {
  if (tickets_.empty() || (tickets_.size() == 1 && !tickets_[0]->is_over())) return;
  tickets_.erase(std::remove_if(tickets_.begin(), tickets_.end(),
                                [](const Ref<Ticket>& t) { return t->is_over(); }),
                 tickets_.end());
  if (tickets_.size() > kFewTickets) keep_newest_of_each_timeline(tickets_);
}

}  // namespace holdfast::hal
