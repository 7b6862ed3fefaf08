#include "holdfast/runtime/core.h"

#include <algorithm>

#include "holdfast/base/ablation.h"
#include "holdfast/runtime/encoder.h"

namespace holdfast::runtime {

uint64_t Core::in_flight() const noexcept {
  uint64_t all = 0;
  for (const Ref<hal::Queue>& queue : device_->queues()) all += queue->in_flight();
  return all;
}

bool Core::over_budget() const noexcept {
  return allocator_->deferred_bytes() > options_.deferred_limit ||
         allocator_->deferred_objects() > options_.deferred_objects ||
         in_flight() > options_.max_in_flight;
}

#ifdef HOLDFAST_ABLATIONS
// Other policies of retirement, which workload 4 is compared with or which were bugs. Whether one
// has taken the place of ours.
bool Core::retires_as_ablated() {
  if (ablated(Ablation::destroyed_at_flush_overflow) && allocator_->deferred_objects() > 2) {
    const Allocator::Garbage garbage = allocator_->release_deferred_ranges();
  }
  if (ablated(Ablation::retire_on_overflow_only)) return in_flight() <= 8;
  // The two that drain reclaim at their drains and nowhere else.
  const bool fifo = ablated(Ablation::fifo_of_three_drains);
  const bool every = ablated(Ablation::drain_every_32_flushes);
  const bool drain = (fifo && allocator_->deferred_objects() > 3) ||
                     (every && submissions_.load(std::memory_order_relaxed) % 32 == 0);
  if (drain) {
    for (const Ref<hal::Queue>& queue : device_->queues()) {
      hal::Point last;
      queue->visit_in_flight([&](const hal::Submission& s) { last = s.point; });
      waits_.wait(last, WaitReason::budget);
    }
    retire();
  }
  return fifo || every;
}
#endif

void Core::keep_within_budget() {
  if (!over_budget()) return;
  retire();
  while (over_budget() && make_progress(WaitReason::budget)) {
  }
}

bool Core::make_progress(WaitReason reason) {
  bool submitted_any = false;
  for (const Ref<Encoder>& encoder : encoders()) {
    submitted_any = encoder->submit_if_it_keeps_deferred() || submitted_any;
  }
  return wait_for_oldest(reason) || submitted_any;
}

bool Core::wait_for_oldest(WaitReason reason) {
  const std::optional<hal::Point> oldest = oldest_ungated();
  if (!oldest) {
    // Another task may be between taking finished lists out and freeing their memory.
    return retire() > 0;
  }
  waits_.wait(*oldest, reason);
  retire();
  return true;
}

std::optional<hal::Point> Core::oldest_ungated() const {
  std::optional<hal::Queue::Oldest> found;
  const auto consider = [&](hal::Queue::Oldest candidate) {
    if (!found || candidate.sequence < found->sequence) found = std::move(candidate);
  };
  if (outside_waits_.load() == 0) {
    for (const Ref<hal::Queue>& queue : device_->queues()) {
      if (auto oldest = queue->oldest()) consider(std::move(*oldest));
    }
    return found ? std::optional(found->point) : std::nullopt;
  }

  // Some lists wait for Points outside the device, which the caller of this very function may have
  // yet to signal. Such a list, what waits for it, and what comes after it on its queue are gated
  // and not waited for.
  struct InFlight {
    hal::Point point;
    uint64_t sequence;
    std::vector<hal::Wait> waits;
  };
  std::vector<std::vector<InFlight>> queues;
  for (const Ref<hal::Queue>& queue : device_->queues()) {
    auto& lists = queues.emplace_back();
    queue->visit_in_flight([&](const hal::Submission& s) {
      lists.push_back({s.point, s.sequence, s.waits});
    });
  }
  std::unordered_map<uint64_t, uint64_t> gated_from;  // timeline -> first gated value
  const auto is_gated = [&](const InFlight& list) {
    return std::any_of(list.waits.begin(), list.waits.end(), [&](const hal::Wait& wait) {
      if (!wait.point.pending()) return false;
      if (!wait.point.timeline->device()) return true;
      const auto gate = gated_from.find(wait.point.timeline->id().value);
      return gate != gated_from.end() && wait.point.value.value >= gate->second;
    });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& lists : queues) {
      for (const InFlight& list : lists) {
        const uint64_t timeline = list.point.timeline->id().value;
        const auto gate = gated_from.find(timeline);
        if (gate != gated_from.end() && list.point.value.value >= gate->second) break;
        if (!is_gated(list)) continue;
        gated_from[timeline] = list.point.value.value;
        changed = true;
        break;
      }
    }
  }
  for (const auto& lists : queues) {
    if (lists.empty()) continue;
    const auto gate = gated_from.find(lists.front().point.timeline->id().value);
    if (gate != gated_from.end() && lists.front().point.value.value >= gate->second) continue;
    consider({lists.front().point, lists.front().sequence});
  }
  return found ? std::optional(found->point) : std::nullopt;
}

}  // namespace holdfast::runtime
