#include "holdfast/hal/access_history.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/base/ablation.h"

namespace holdfast::hal {
namespace {

// Lists in flight that an Allocation tells apart, for each kind of access; beyond it the oldest is
// joined with what comes after it. Chosen small because every first bind in a list looks at all of
// them.
constexpr size_t kMaxEntries = 16;

constexpr size_t kNoWait = ~size_t{0};
constexpr ByteRange kEverything{{}, kMaxBytes};

ByteRange common(ByteRange a, ByteRange b) {
  const Bytes begin = std::max(a.offset, b.offset);
  const Bytes end = std::min(a.end(), b.end());
  return {begin, begin < end ? end - begin : Bytes{}};
}

// Its place among the waits; kNoWait where there is nothing to wait for.
size_t add_wait(std::vector<Wait>& waits, const Ticket& ticket, WaitKind kind) {
  // A writer that was seen to fail after the caller looked still has a Point to take the failure
  // from.
  const TicketState state = ticket.state();
  const bool failed = state == TicketState::seen && kind == WaitKind::data && ticket.has_failed();
  if (state != TicketState::submitted && !failed) return kNoWait;
  Wait wait{ticket.point(), kind};
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].point != wait.point) continue;
    if (kind == WaitKind::data) waits[i].kind = WaitKind::data;
    return i;
  }
  waits.push_back(std::move(wait));
  return waits.size() - 1;
}

template <typename Tickets>
void add_once(Tickets& tickets, const Ref<Ticket>& ticket) {
  if (std::find(tickets.begin(), tickets.end(), ticket) == tickets.end()) tickets.push_back(ticket);
}

}  // namespace

AccessHistory::Conflict AccessHistory::first_conflict(ByteRange range, Access access, LaneId lane,
                                                      const Ticket* own,
                                                      Obstacles& obstacles) const {
  Conflict conflict;
  for (const Entry& writer : writers_) {
    if (writer.ticket.get() == own || !writer.bytes.overlaps(range)) continue;
    const TicketState state = writer.ticket->state();
    if (state == TicketState::open) {
      // A list of this lane that is being submitted right now has no Point to take a failure from
      // yet.
      if (reads(access) || writer.ticket->lane() != lane) add_once(obstacles.open, writer.ticket);
    } else if (reads(access) && !conflict.found) {
      conflict.poison = failure_of(writer, range);
      conflict.found = static_cast<bool>(conflict.poison);
    }
  }
  const auto must_be_submitted = [&](const Ref<Ticket>& ticket) {
    if (ticket.get() != own && ticket->lane() != lane && ticket->state() == TicketState::open) {
      add_once(obstacles.open, ticket);
    }
  };
  if (writes(access)) {
    for (const Entry& reader : readers_) {
      if (reader.bytes.overlaps(range)) must_be_submitted(reader.ticket);
    }
  }
  for (const Ref<Ticket>& other : others_) must_be_submitted(other);
  for (const HostAccess& host : host_accesses_) {
    if (!host.range.overlaps(range) || !(writes(access) || writes(host.access))) continue;
    if (!host.is_map) {
      obstacles.readback_under_way = true;
    } else if (!conflict.found) {
      conflict.found = true;
      conflict.map = &host;
    }
  }
  return conflict;
}

Failure AccessHistory::conflict_failure(const Conflict& conflict, const std::string& what) {
  if (conflict.poison) return conflict.poison;
  return Failure(ErrorCode::usage,
                 fmt::format("{} cannot be used by a list now: the map '{}' has bytes {}..{} of it "
                             "for {}; end the map first",
                             what, conflict.map->name, conflict.map->range.offset.value,
                             conflict.map->range.end().value, to_string(conflict.map->access)));
}

void AccessHistory::add_access(ByteRange range, Access access, const Ref<Ticket>& own,
                               ListWaits& waits, Extent extent) {
  // A first access, after earlier lives of the same lane at most: nobody is to be waited for.
  if (writers_.empty() && readers_.empty() && others_.is_of(own->lane())) {
    (writes(access) ? writers_ : readers_).emplace_back(own, range);
    return;
  }
  const auto left_all_good = [this](const Entry& e) {
    return e.ticket->is_over() && !failure_of(e, kEverything);
  };
  const auto over = [](const Entry& e) { return e.ticket->is_over(); };
  writers_.erase(std::remove_if(writers_.begin(), writers_.end(), left_all_good), writers_.end());
  readers_.erase(std::remove_if(readers_.begin(), readers_.end(), over), readers_.end());
  others_.prune();

  const auto is_own = [&](const Entry& e) { return e.ticket == own; };
  for (const Entry& writer : writers_) {
    if (is_own(writer) || !writer.bytes.overlaps(range)) continue;
    if (reads(access)) {
      // Who writes a hull takes over bytes that it may neither read nor overwrite.
      await_data(writer, range, writes(access) && extent == Extent::hull, waits);
    } else if (writer.ticket->lane() != own->lane()) {
      add_wait(waits.waits, *writer.ticket, WaitKind::order);
    }
  }
  if (writes(access) && !ablated(Ablation::war_ignored)) {
    for (const Entry& reader : readers_) {
      if (reader.ticket->lane() == own->lane() || !reader.bytes.overlaps(range)) continue;
      add_wait(waits.waits, *reader.ticket, WaitKind::order);
    }
  }
  for (const Ref<Ticket>& other : others_) {
    if (other->lane() != own->lane()) add_wait(waits.waits, *other, WaitKind::order);
  }

  const auto extend = [&](Entries& entries) {
    const auto mine = std::find_if(entries.begin(), entries.end(), is_own);
    if (mine != entries.end()) {
      mine->bytes.add(range);
    } else {
      entries.emplace_back(own, range);
    }
  };
  if (writes(access)) {
    // From now on this list vouches for the bytes: it overwrites them, or waits for the data of
    // whoever wrote them, so that what is bad of them is bad by this list, too.
    forget_written(range, own.get());
    extend(writers_);
    if (writers_.size() > kMaxEntries) join_oldest_writer(own, waits);
    return;
  }
  extend(readers_);
  if (readers_.size() > kMaxEntries) {
    others_.add(readers_.front().ticket);
    readers_.erase(readers_.begin());
  }
}

void AccessHistory::await_data(const Entry& writer, ByteRange range, bool answers,
                               ListWaits& waits) const {
  const size_t wait = add_wait(waits.waits, *writer.ticket, WaitKind::data);
  if (wait == kNoWait) return;
  for (const ByteRange& piece : writer.bytes) {
    const ByteRange bytes = common(piece, range);
    if (bytes.empty()) continue;
    waits.bytes.push_back({static_cast<uint32_t>(wait), answers, of_, bytes});
  }
}

Failure AccessHistory::failure_of(const Entry& writer, ByteRange range) const {
  if (!writer.ticket->has_failed()) return {};
  for (const ByteRange& piece : writer.bytes) {
    const ByteRange bytes = common(piece, range);
    if (bytes.empty()) continue;
    if (Failure failure = writer.ticket->failure_of(of_, bytes)) return failure;
  }
  return {};
}

// The new list takes the oldest one's bytes over, and answers for them: whoever waits for the new
// list's data has waited for both.
void AccessHistory::join_oldest_writer(const Ref<Ticket>& own, ListWaits& waits) {
  const auto oldest = std::find_if(writers_.begin(), writers_.end(), [&](const Entry& e) {
    return e.ticket != own && e.ticket->state() == TicketState::submitted;
  });
  if (oldest == writers_.end()) return;
  await_data(*oldest, kEverything, true, waits);
  others_.add(oldest->ticket);
  const RangeSet bytes = oldest->bytes;
  writers_.erase(oldest);
  const auto mine = std::find_if(writers_.begin(), writers_.end(),
                                 [&](const Entry& e) { return e.ticket == own; });
  for (const ByteRange& range : bytes) mine->bytes.add(range);
}

void AccessHistory::forget_written(ByteRange range, const Ticket* except) {
  writers_.erase(std::remove_if(writers_.begin(), writers_.end(),
                                [&](Entry& e) {
                                  if (e.ticket.get() == except) return false;
                                  const RangeSet before = e.bytes;
                                  e.bytes.remove(range);
                                  if (e.bytes.empty()) {
                                    others_.add(e.ticket);
                                    return true;
                                  }
                                  keep_in_order(e.ticket, before, range);
                                  return false;
                                }),
                 writers_.end());
}

// Somebody vouches for these bytes of a writer now, but may never be submitted: whoever overwrites
// them next must still come after the writer.
void AccessHistory::keep_in_order(const Ref<Ticket>& writer, const RangeSet& written,
                                  ByteRange range) {
  if (writer->is_over() || !written.overlaps(range)) return;
  const auto mine = std::find_if(readers_.begin(), readers_.end(),
                                 [&](const Entry& e) { return e.ticket == writer; });
  RangeSet& bytes =
      mine != readers_.end() ? mine->bytes : readers_.emplace_back(writer, ByteRange{}).bytes;
  for (const ByteRange& piece : written) {
    bytes.add(common(piece, range));
  }
}

void AccessHistory::collect(ByteRange range, Access access, Tickets& out) const {
  const auto add = [&](const Ref<Ticket>& ticket) {
    if (!ticket->is_over()) add_once(out, ticket);
  };
  for (const Entry& writer : writers_) {
    if (writer.bytes.overlaps(range)) add(writer.ticket);
  }
  if (!writes(access)) return;
  for (const Entry& reader : readers_) {
    if (reader.bytes.overlaps(range)) add(reader.ticket);
  }
  for (const Ref<Ticket>& other : others_) add(other);
}

Failure AccessHistory::poison(ByteRange range) const {
  for (const Entry& writer : writers_) {
    if (Failure failure = failure_of(writer, range)) return failure;
  }
  return {};
}

void AccessHistory::add_to(Frontier& frontier) const {
  for (const Entry& writer : writers_) frontier.add(writer.ticket);
  for (const Entry& reader : readers_) frontier.add(reader.ticket);
  frontier.add(others_);
}

void AccessHistory::leave_to(Frontier& frontier) {
  const bool one_list = writers_.size() + readers_.size() == 1;
  if (!one_list) {
    add_to(frontier);
    return;
  }
  Entries& entries = writers_.empty() ? readers_ : writers_;
  Ref<Ticket> only = std::move(entries.front().ticket);
  entries.clear();
  frontier = std::move(others_);
  others_.clear();
  frontier.prune();
  frontier.add(std::move(only));
}

void AccessHistory::end_host_access(const HostAccess& access) {
  const auto found =
      std::find_if(host_accesses_.begin(), host_accesses_.end(),
                   [&](const HostAccess& present) { return present.serial == access.serial; });
  if (found != host_accesses_.end()) host_accesses_.erase(found);
}

const AccessHistory::HostAccess* AccessHistory::host_conflict(ByteRange range,
                                                              Access access) const {
  for (const HostAccess& host : host_accesses_) {
    if (host.range.overlaps(range) && (writes(access) || writes(host.access))) return &host;
  }
  return nullptr;
}

}  // namespace holdfast::hal
