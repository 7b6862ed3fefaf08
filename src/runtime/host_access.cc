#include "holdfast/runtime/core.h"

#include <fmt/format.h>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"

namespace holdfast::runtime {

bool Core::try_begin_host_access(hal::Allocation& allocation,
                                 hal::AccessHistory::HostAccess& access) {
  access.serial = access_serial_.fetch_add(1, std::memory_order_relaxed) + 1;
  sync::Lock lock(history_locks_.of(allocation));
  hal::AccessHistory& history = allocation.history();
  hal::AccessHistory::Tickets tickets;
  if (!ablated(Ablation::host_access_not_ordered)) {
    history.collect(access.range, access.access, tickets);
  }
  if (!tickets.empty() || history.host_conflict(access.range, access.access) != nullptr) {
    return false;
  }
  history.begin_host_access(access);
  allocation.bump_history_version();
  return true;
}

void Core::begin_host_access(hal::Allocation& allocation, hal::AccessHistory::HostAccess& access,
                             WaitReason reason, const WaitLimit& limit) {
  access.serial = access_serial_.fetch_add(1, std::memory_order_relaxed) + 1;
  hal::AccessHistory& history = allocation.history();
  bool registered = false;
  const auto conflict_locked = [&] {
    return registered ? nullptr : history.host_conflict(access.range, access.access);
  };
  try {
    for (;;) {
      if (!registered) let_others_pass();
      hal::AccessHistory::Tickets tickets;
      bool readback = false;
      {
        sync::Lock lock(history_locks_.of(allocation));
        if (const hal::AccessHistory::HostAccess* conflict = conflict_locked()) {
          if (conflict->is_map) {
            throw UsageError(fmt::format(
                "{} cannot be accessed by '{}': the map '{}' has bytes {}..{} of it for "
                "{}; end that map first",
                allocation.describe(), access.name, conflict->name, conflict->range.offset.value,
                conflict->range.end().value, hal::to_string(conflict->access)));
          }
          readback = true;
        } else {
          if (!ablated(Ablation::host_access_not_ordered)) {
            history.collect(access.range, access.access, tickets);
          }
          // Others are refused by a map, but wait for a readback: so that one is there for its copy
          // only.
          if (!registered && (access.is_map || tickets.empty())) {
            history.begin_host_access(access);
            allocation.bump_history_version();
            registered = true;
          }
        }
      }
      if (readback) {
        wait_for_readbacks(allocation, access.range, access.access, limit);
        continue;
      }
      if (tickets.empty()) break;
      submit_and_wait(tickets, reason, limit);
      if (ablated(Ablation::readback_does_not_retire) && !access.is_map) {
        sync::Lock lock(history_locks_.of(allocation));
        history.begin_host_access(access);
        registered = true;
        break;
      }
      retire();  // only then are they over, and the next look finds nothing left
    }
    if (hal::reads(access.access)) raise_poison(allocation, access.range);
  } catch (...) {
    if (registered) end_host_access(allocation, access, false);
    throw;
  }
  if (!ablated(Ablation::readback_does_not_retire) || access.is_map) retire();
}

void Core::submit_and_wait(const hal::AccessHistory::Tickets& tickets, WaitReason reason,
                           const WaitLimit& limit) {
  for (const Ref<hal::Ticket>& ticket : tickets) submit_open_list(*ticket);
  for (const Ref<hal::Ticket>& ticket : tickets) {
    if (ticket->state() != hal::TicketState::abandoned) waits_.wait(ticket->point(), reason, limit);
  }
}

void Core::raise_poison(hal::Allocation& allocation, ByteRange range) {
  Failure poison;
  {
    sync::Lock lock(history_locks_.of(allocation));
    poison = allocation.history().poison(range);
  }
  poison.raise_if_any();
}

void Core::wait_for_writers(hal::Allocation& allocation, ByteRange range, WaitReason reason,
                            const WaitLimit& limit) {
  for (;;) {
    hal::AccessHistory::Tickets tickets;
    {
      sync::Lock lock(history_locks_.of(allocation));
      allocation.history().collect(range, hal::Access::read, tickets);
    }
    if (tickets.empty()) break;
    submit_and_wait(tickets, reason, limit);
    retire();
  }
  raise_poison(allocation, range);
}

void Core::end_host_access(hal::Allocation& allocation,
                           const hal::AccessHistory::HostAccess& access, bool happened) noexcept {
  if (forked()) return;
  {
    sync::Lock lock(history_locks_.of(allocation));
    allocation.history().end_host_access(access);
    if (happened && hal::writes(access.access)) allocation.history().host_wrote(access.range);
    allocation.bump_history_version();
  }
  if (access_waiters_.load() == 0) return;
  sync::Lock lock(access_mutex_);
  ++accesses_ended_;
  access_changed_.notify_all();
}

void Core::wait_for_readbacks(hal::Allocation& allocation, ByteRange range, hal::Access access,
                              const WaitLimit& limit) {
  const auto conflict = [&] {
    sync::Lock lock(history_locks_.of(allocation));
    const hal::AccessHistory::HostAccess* host = allocation.history().host_conflict(range, access);
    return host != nullptr && !host->is_map;
  };
  access_waiters_.fetch_add(1);
  try {
    waits_.wait_until(
        [&](sync::Deadline deadline) {
          sync::Lock lock(access_mutex_);
          const uint64_t before = accesses_ended_;
          lock.unlock();
          if (!conflict()) return true;
          lock.lock();
          // One that has ended is enough for the caller to look again, and to ask for precedence in
          // time.
          return access_changed_.wait_until(lock, deadline, [&] {
            access_mutex_.assert_held();
            return accesses_ended_ != before;
          });
        },
        WaitReason::host_access, limit, fmt::format("a readback of {}", allocation.describe()));
  } catch (...) {
    access_waiters_.fetch_sub(1);
    throw;
  }
  access_waiters_.fetch_sub(1);
}

Core::Precedence::Precedence(Core& core) : core_(core) {
  while (core_.precedence_taken_.exchange(true)) core_.wait_for_precedence();
}

Core::Precedence::~Precedence() {
  core_.precedence_taken_.store(false);
  sync::Lock lock(core_.access_mutex_);
  ++core_.accesses_ended_;
  core_.access_changed_.notify_all();
}

void Core::wait_for_precedence() {
  waits_.wait_until(
      [&](sync::Deadline deadline) {
        sync::Lock lock(access_mutex_);
        return access_changed_.wait_until(lock, deadline,
                                          [&] { return !precedence_taken_.load(); });
      },
      WaitReason::host_access, {}, "a recorder that others kept overtaking");
}

}  // namespace holdfast::runtime
