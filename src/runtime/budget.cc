#include "holdfast/runtime/core.h"

#include <algorithm>
#include <span>

#include "holdfast/base/ablation.h"
#include "holdfast/runtime/recorder.h"
#include "holdfast/runtime/transfer_gate.h"

namespace holdfast::runtime {

uint64_t Core::in_flight() const noexcept {
  uint64_t all = 0;
  for (const Ref<hal::Queue>& queue : device_->queues()) all += queue->in_flight();
  return all;
}

bool Core::over_budget() const noexcept {
  return has_deferred_too_much() || in_flight() > options_.max_in_flight;
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

void Core::reduce_deferred() {
  retire();
  while (has_deferred_too_much() && make_progress(WaitReason::budget)) {
  }
}

void Core::keep_within_budget_to_flush() {
  counted_submissions_.store(submissions_.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
  if (!over_budget()) return;
  retire();
  while (over_budget() && make_progress(WaitReason::budget)) {
  }
}

bool Core::make_progress(WaitReason reason) {
  bool submitted_any = false;
  for (const Ref<Recorder>& recorder : recorders()) {
    submitted_any = recorder->submit_if_it_keeps_deferred() || submitted_any;
  }
  return wait_for_oldest(reason) || submitted_any || wait_for_reader(reason);
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

struct Core::Gated {
  struct InFlight {
    hal::Point point;
    uint64_t sequence;
    std::vector<hal::Wait> waits;
  };
  // Every list in flight, in order; the device's own queues come first.
  std::vector<std::vector<InFlight>> queues;
  std::unordered_map<uint64_t, uint64_t> first;  // timeline -> its first gated value

  bool contains(const hal::Point& point) const {
    const auto gate = first.find(point.timeline->id().value);
    return gate != first.end() && point.value.value >= gate->second;
  }
};

Core::Gated Core::find_gated() const {
  Gated gated;
  // With the devices that transfers come from: a list that waits for one of their lists is gated
  // where that one is.
  std::vector<std::shared_ptr<Core>> sources;
  const auto look = [&](const Core& core) {
    for (const Ref<hal::Queue>& queue : core.device_->queues()) {
      auto& lists = gated.queues.emplace_back();
      queue->visit_in_flight([&](const hal::Submission& s) {
        lists.push_back({s.point, s.sequence, s.waits});
        for (const hal::Wait& wait : s.waits) {
          const TransferGate* const gate = TransferGate::of(wait.point);
          if (gate == nullptr) continue;
          const std::shared_ptr<Core> source = gate->source();
          if (!source || source.get() == this) continue;
          if (std::ranges::find(sources, source) == sources.end()) sources.push_back(source);
        }
      });
    }
  };
  look(*this);
  for (size_t i = 0; i < sources.size(); ++i) look(*std::shared_ptr(sources[i]));
  const auto holds_up = [&](const hal::Wait& wait) {
    if (!wait.point.pending()) return false;
    if (const TransferGate* const gate = TransferGate::of(wait.point)) {
      return gated.contains(gate->relayed());
    }
    return !wait.point.timeline->device() || gated.contains(wait.point);
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& lists : gated.queues) {
      for (const Gated::InFlight& list : lists) {
        if (gated.contains(list.point)) break;
        if (std::none_of(list.waits.begin(), list.waits.end(), holds_up)) continue;
        gated.first[list.point.timeline->id().value] = list.point.value.value;
        changed = true;
        break;
      }
    }
  }
  return gated;
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
  } else {
    const Gated gated = find_gated();
    for (const auto& lists : std::span(gated.queues).first(device_->queues().size())) {
      if (lists.empty() || gated.contains(lists.front().point)) continue;
      consider({lists.front().point, lists.front().sequence});
    }
  }
  return found ? std::optional(found->point) : std::nullopt;
}

bool Core::is_gated(const hal::Point& point) const { return find_gated().contains(point); }

bool Core::is_held_up(const hal::Queue& queue) const {
  // Counted before such a list can be in flight.
  if (outside_waits_.load() == 0) return false;
  return find_gated().first.contains(queue.timeline()->id().value);
}

}  // namespace holdfast::runtime
