// Accesses that no list of ours makes: others' work on native streams, and whatever else has a
// Point.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "holdfast/base/error.h"
#include "holdfast/base/log.h"
#include "holdfast/runtime/core.h"

namespace holdfast::runtime {

void Core::add_outside_access(hal::Allocation& allocation, hal::Access access,
                              const hal::Point& point) {
  if (!point.timeline) return;
  const hal::DeviceId owner = point.timeline->device();
  if (owner && owner != device_->id()) {
    throw UsageError(
        fmt::format("{} cannot be in use until {}, which belongs to another device; export that "
                    "Point and import it here",
                    allocation.describe(), hal::to_string(point)));
  }
  // A lane of its own: nothing of ours comes before or after it but by its Point.
  const auto ticket = make_ref<hal::Ticket>(hal::ListId::next(), hal::LaneId::next());
  ticket->mark_submitted(point);
  {
    sync::Lock lock(retire_mutex_);
    outside_.push_back(ticket);
    outside_count_.fetch_add(1);
  }
  {
    sync::Lock lock(history_locks_.of(allocation));
    // Whom the others have waited for is their affair.
    hal::ListWaits unneeded;
    allocation.history().add_access({{}, allocation.size()}, access, ticket, unneeded);
    allocation.bump_history_version();
  }
  wake_reaper();
}

std::vector<Ref<hal::Ticket>> Core::retire_outside_locked(Allocator::Garbage& garbage) {
  std::vector<Ref<hal::Ticket>> over;
  const auto first_over =
      std::partition(outside_.begin(), outside_.end(),
                     [](const Ref<hal::Ticket>& ticket) { return ticket->point().pending(); });
  std::move(first_over, outside_.end(), std::back_inserter(over));
  outside_.erase(first_over, outside_.end());
  outside_count_.fetch_sub(static_cast<uint32_t>(over.size()));
  for (const Ref<hal::Ticket>& ticket : over) {
    const hal::Point& point = ticket->point();
    ticket->mark_seen(point.failure(), point.damage());
    Allocator::Garbage freed = allocator_->ticket_over(*ticket);
    std::move(freed.begin(), freed.end(), std::back_inserter(garbage));
  }
  return over;
}

void Core::make_native_wait(void* native_stream, hal::Allocation& written) {
  const ByteRange all{{}, written.size()};
  for (bool again = true; std::exchange(again, false);) {
    hal::AccessHistory::Tickets writers;
    {
      sync::Lock lock(history_locks_.of(written));
      written.history().collect(all, hal::Access::read, writers);
    }
    for (const Ref<hal::Ticket>& writer : writers) {
      submit_open_list(*writer);
      if (writer->state() != hal::TicketState::submitted) continue;
      const hal::Point& point = writer->point();
      if (point.pending()) {
        const Failure refused = device_->make_native_wait(native_stream, point);
        if (!refused) continue;
        // What has failed meanwhile may have left these bytes good.
        if (point.pending()) refused.raise();
      }
      again = true;
    }
    if (again) retire();
  }
  raise_poison(written, all);
}

void Core::wait_for_outside(sync::Deadline deadline) {
  std::vector<Ref<hal::Ticket>> left;
  {
    sync::Lock lock(retire_mutex_);
    left = outside_;
  }
  for (const Ref<hal::Ticket>& ticket : left) {
    waits_.wait(ticket->point(), WaitReason::shutdown, {deadline, {}});
  }
}

}  // namespace holdfast::runtime
