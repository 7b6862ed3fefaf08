#include "holdfast/runtime/core.h"

#include <algorithm>
#include <iterator>

#include "holdfast/base/ablation.h"
#include "holdfast/base/log.h"
#include "holdfast/base/sync/task_local.h"

namespace holdfast::runtime {
namespace {

// Storage of finished lists that is kept for new ones.
constexpr size_t kSpareLists = 64;

}  // namespace

size_t Core::retire() {
  hal::Retired finished;
  Allocator::Garbage garbage;
  std::vector<Ref<hal::Ticket>> outside;
  {
    sync::Lock lock(retire_mutex_);
    if (outside_count_.load(std::memory_order_relaxed) != 0) {
      outside = retire_outside_locked(garbage);
    }
    for (const Ref<hal::Queue>& queue : device_->queues()) {
      hal::Retired batch = queue->retire();
      for (auto& submission : batch) {
        hal::Ticket& ticket = *submission->list.ticket();
        if (ticket.failure()) failures_.fetch_add(1, std::memory_order_relaxed);
        auto freed = allocator_->ticket_over(ticket);
        std::move(freed.begin(), freed.end(), std::back_inserter(garbage));
        finished.push_back(std::move(submission));
      }
    }
    if (ablated(Ablation::lock_held_while_holds_drop)) {
      drop(std::exchange(finished, {}));
      garbage.clear();
    }
  }
  const size_t count = finished.size();
  retired_.fetch_add(count, std::memory_order_release);
  drop(std::move(finished));
  return count;
}

void Core::drop(hal::Retired retired) {
  for (auto& submission : retired) {
    const auto outside = [](const hal::Wait& w) {
      return w.point.timeline && !w.point.timeline->device();
    };
    if (std::any_of(submission->waits.begin(), submission->waits.end(), outside)) {
      count_outside_wait(-1);
    }
    hal::ListStorage storage = submission->list.take_storage();
    auto spare = spare_lists_.lock();
    if (spare->size() < kSpareLists) spare->push_back(std::move(storage));
  }
}

hal::ListStorage Core::take_list_storage() {
  auto spare = spare_lists_.lock();
  if (spare->empty()) return {};
  hal::ListStorage storage = std::move(spare->back());
  spare->pop_back();
  return storage;
}

void Core::abandoned(hal::Ticket& ticket) {
  if (Failure failure = ticket.failure()) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    logging::note(logging::Topic::device, "list {} will not run: {}", ticket.list().value,
                  failure.message());
  }
  const Allocator::Garbage garbage = allocator_->ticket_over(ticket);
}

void Core::count_outside_wait(int change) noexcept {
  outside_waits_.fetch_add(static_cast<uint64_t>(static_cast<int64_t>(change)));
}

void Core::submitted() {
  submissions_.fetch_add(1, std::memory_order_relaxed);
  if (!retires_as_ablated()) retire();
  wake_reaper();
}

void Core::wake_reaper() {
  if (!reaper_sleeps_.exchange(false)) return;
  sync::Lock lock(reaper_mutex_);
  reaper_changed_.notify_all();
}

void Core::start_reaper() {
  if (!options_.reaper) return;
  sync::Lock lock(reaper_mutex_);
  reaper_ended_ = false;
  reaper_ = sync::Thread("hf-reaper", [self = shared_from_this()] { self->reap(); });
}

// Wakes only while lists or accesses of others are in flight, and retires only where nobody else
// did since its last look.
void Core::reap() {
  reaper_task_ = sync::this_task();
  constexpr sync::Duration idle = std::chrono::milliseconds(20);
  uint64_t retired_before = retired_.load(std::memory_order_relaxed);
  for (;;) {
    {
      sync::Lock lock(reaper_mutex_);
      if (has_nothing_in_flight()) {
        reaper_sleeps_.store(true);
        reaper_changed_.wait(lock, [&] {
          reaper_mutex_.assert_held();
          return reaper_stops_ || !has_nothing_in_flight() || !reaper_sleeps_.load();
        });
        reaper_sleeps_.store(false);
      }
      reaper_changed_.wait_until(lock, sync::Deadline::after(idle), [&] {
        reaper_mutex_.assert_held();
        return reaper_stops_;
      });
      if (reaper_stops_) break;
    }
    const uint64_t now = retired_.load(std::memory_order_relaxed);
    if (now == retired_before) retire();
    retired_before = retired_.load(std::memory_order_relaxed);
  }
  // Another task may get the same place in memory, and must not pass for this one.
  reaper_task_ = nullptr;
  sync::Lock lock(reaper_mutex_);
  reaper_ended_ = true;
  reaper_changed_.notify_all();
}

void Core::stop_reaper(sync::Deadline deadline) {
  sync::Lock lock(reaper_mutex_);
  reaper_stops_ = true;
  reaper_changed_.notify_all();
  if (!reaper_.joinable()) return;
  // It may be running a deleter of the user's, which may need a lock that the caller has.
  if (!reaper_.is_current()) {
    reaper_changed_.wait_until(lock, deadline, [&] {
      reaper_mutex_.assert_held();
      return reaper_ended_;
    });
  }
  const bool ended = reaper_ended_;
  lock.unlock();
  if (ended) {
    reaper_.join();
  } else {
    reaper_.detach();
  }
}

}  // namespace holdfast::runtime
