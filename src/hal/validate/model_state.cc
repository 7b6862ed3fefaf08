#include "holdfast/hal/validate/model_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "holdfast/hal/host_timeline.h"

namespace holdfast::hal {
namespace {

// Names of so many destroyed things are remembered; of older ones, only that they are gone.
constexpr size_t kGoneNames = 4096;

}  // namespace

ModelState::ModelState(size_t queue_count, ViolationHandler h)
    : handler(std::move(h)), queues(queue_count), host(queue_count), outside(queue_count) {
  for (size_t i = 0; i < queue_count; ++i) {
    queues[i].name = std::make_shared<const std::string>(fmt::format("queue {}", i));
    queues[i].last = QueueClock(queue_count);
  }
}

void ModelState::report(const std::vector<Violation>& found) {
  if (found.empty()) return;
  ViolationHandler call;
  {
    sync::LeafLock lock(mutex);
    call = handler;
  }
  if (!call) return;
  for (const Violation& violation : found) call(violation);
}

void ModelState::tell_locked(std::shared_ptr<Thing> thing) {
  if (!first) first = thing->id;
  things.insert_or_assign(thing->id, std::move(thing));
}

bool ModelState::is_gone_locked(ResourceId id) const {
  return gone.contains(id) || (first && first <= id && id <= forgotten);
}

void ModelState::forget_locked(const std::shared_ptr<Thing>& thing) {
  const ResourceId id = thing->id;
  thing->is_gone = true;
  thing->uses.clear();
  --(thing->shares ? *thing->shares : *thing).views;
  if (thing->shadow) std::erase(thing->shadow->views, thing);
  thing->shadow.reset();
  gone.emplace(id, thing);
  gone_order.push_back(id);
  things.erase(id);
  while (gone_order.size() > kGoneNames) {
    forgotten = std::max(forgotten, gone_order.front());
    gone.erase(gone_order.front());
    gone_order.pop_front();
  }
  if (programs.size() > kGoneNames) {
    std::erase_if(programs, [](const auto& entry) { return entry.second->is_gone; });
  }
}

QueueClock ModelState::needed_until_locked(const Uses& uses) const {
  QueueClock until(queues.size());
  for (const AccessRecord& use : uses) until.raise(use.list->queue, use.list->value);
  return until;
}

void ModelState::saw_locked(uint32_t q, uint64_t value) {
  value = std::min(value, queues[q].last_value);
  if (host.covers(q, value)) return;
  if (const ListRecord* list = queues[q].find(value)) host.join(list->clock);
  for (uint32_t i = 0; i < queues.size(); ++i) {
    auto& in_flight = queues[i].in_flight;
    while (!in_flight.empty() && host.covers(i, in_flight.front()->value)) in_flight.pop_front();
  }
  const auto over = std::partition(kept.begin(), kept.end(), [this](const Kept& each) {
    mutex.assert_held();
    return !each.until.is_covered_by(host);
  });
  std::move(over, kept.end(), std::back_inserter(released));
  kept.erase(over, kept.end());
}

std::optional<uint32_t> ModelState::queue_of_locked(const Timeline& timeline) const {
  for (uint32_t q = 0; q < queues.size(); ++q) {
    if (queues[q].timeline == timeline.id()) return q;
  }
  return std::nullopt;
}

void ModelState::join_point_locked(QueueClock& clock, const Point& point) const {
  if (!point.timeline) return;
  if (const auto q = queue_of_locked(*point.timeline)) {
    // One that is not in flight is known to the host, and so to every list.
    if (const ListRecord* list = queues[*q].find(point.value.value)) clock.join(list->clock);
    return;
  }
  if (dynamic_cast<const DescriptorTimeline*>(point.timeline.get()) != nullptr) {
    clock.join(outside);
  }
}

}  // namespace holdfast::hal
