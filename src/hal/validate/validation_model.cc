#include "holdfast/hal/validate/validation_model.h"

#include <algorithm>
#include <utility>

#include "holdfast/hal/program.h"
#include "holdfast/hal/validate/access_checker.h"

namespace holdfast::hal {
namespace {

// After so many lists, Buffers that nobody uses any more are swept too.
constexpr uint64_t kSweepEvery = 1024;

}  // namespace

ValidationModel::ValidationModel(size_t queues, ViolationHandler handler)
    : state_(std::make_unique<ModelState>(queues, std::move(handler))) {}

ValidationModel::~ValidationModel() {
  // Lives know their Buffer, and Buffers their lives.
  for (const auto& [id, shadow] : state_->shadows) {
    shadow->intervals.clear();
    shadow->views.clear();
  }
}

void ValidationModel::set_handler(ViolationHandler handler) {
  sync::LeafLock lock(state_->mutex);
  std::swap(state_->handler, handler);
}

void ValidationModel::born(const Allocation& allocation) {
  auto life = std::make_shared<Thing>();
  life->kind = Thing::Kind::allocation;
  life->id = allocation.id();
  life->name = std::make_shared<const std::string>(allocation.name());
  life->range = {allocation.offset(), allocation.size()};
  life->site = allocation.site();
  const Buffer& buffer = *allocation.buffer();
  // Where the host can write without telling us, nothing is known about what was written.
  life->judges_initialization =
      !buffer.is_imported() && (buffer.owner() != nullptr || buffer.host_pointer() == nullptr);
  sync::LeafLock lock(state_->mutex);
  auto& shadow = state_->shadows[buffer.id()];
  if (!shadow) {
    shadow = std::make_shared<Shadow>();
    shadow->id = buffer.id();
    shadow->name = buffer.name();
    shadow->size = buffer.size();
  }
  life->shadow = shadow;
  if (buffer.owner() == nullptr) {
    for (const std::shared_ptr<Thing>& view : shadow->views) {
      if (view->is_dead || !view->range.overlaps(life->range)) continue;
      life->shares = life_of(view);
      ++life->shares->views;
      break;
    }
    shadow->views.push_back(life);
  }
  state_->tell_locked(std::move(life));
}

void ValidationModel::died(const Allocation& allocation) {
  sync::LeafLock lock(state_->mutex);
  const auto life = state_->things.find(allocation.id());
  if (life == state_->things.end()) return;
  life->second->is_dead = true;
  life->second->died_after = state_->last_submitted;
}

void ValidationModel::made(const Resource& resource) {
  auto thing = std::make_shared<Thing>();
  thing->id = resource.id();
  thing->name = std::make_shared<const std::string>(resource.name());
  const auto* program = dynamic_cast<const Program*>(&resource);
  thing->kind = program != nullptr ? Thing::Kind::program : Thing::Kind::pipeline;
  if (program != nullptr) {
    for (const Command& command : program->list()) {
      if (command.kind == CommandKind::barrier || command.is_mark()) continue;
      thing->parameter_hashes.push_back(parameter_hash(command));
    }
  }
  sync::LeafLock lock(state_->mutex);
  if (program != nullptr) state_->programs.insert_or_assign(program, thing);
  state_->tell_locked(std::move(thing));
}

bool ValidationModel::keeps(const Resource& resource) {
  std::vector<Violation> found;
  {
    sync::LeafLock lock(state_->mutex);
    const auto entry = state_->things.find(resource.id());
    if (entry == state_->things.end()) return false;
    const std::shared_ptr<Thing> thing = entry->second;
    const AccessRecord* use = thing->uses.in_flight(state_->host);
    if (use == nullptr) {
      state_->forget_locked(thing);
      return false;
    }
    thing->is_gone = true;
    state_->kept.push_back({KeptResource(resource), state_->needed_until_locked(thing->uses)});
    if (!std::exchange(thing->was_reported, true)) {
      found.push_back(destroyed_in_flight(*thing, *use));
    }
  }
  state_->report(found);
  return true;
}

bool ValidationModel::keeps(Buffer& buffer) {
  std::vector<Violation> found;
  {
    sync::LeafLock lock(state_->mutex);
    const auto entry = state_->shadows.find(buffer.id());
    if (entry == state_->shadows.end()) return false;
    const std::shared_ptr<Shadow> shadow = entry->second;
    const AccessRecord* use = shadow->uses.in_flight(state_->host);
    if (use == nullptr) {
      shadow->intervals.clear();
      shadow->views.clear();
      state_->shadows.erase(entry);
      return false;
    }
    found.push_back(given_back_in_flight(shadow->describe(), *use));
    state_->kept.push_back({Ref<Buffer>(&buffer), state_->needed_until_locked(shadow->uses)});
  }
  state_->report(found);
  return true;
}

Failure ValidationModel::submit(uint32_t queue, const Work& work) {
  std::vector<Violation> found;
  bool accepted = false;
  {
    sync::LeafLock lock(state_->mutex);
    ModelState::QueueState& q = state_->queues[queue];
    if (!q.is_named && work.queue != nullptr) {
      q.name = std::make_shared<const std::string>(work.queue->name());
      q.is_named = true;
    }
    if (work.point.timeline) q.timeline = work.point.timeline->id();
    accepted = AccessChecker(*state_, found).enter_list(queue, work);
    if (accepted) {
      const std::shared_ptr<const ListRecord>& list = q.journal.list();
      q.before_journal = std::exchange(q.last, list->clock);
      q.last_value = list->value;
      q.in_flight.push_back(list);
      state_->last_submitted = list->title;
      if (++state_->submissions % kSweepEvery == 0) {
        for (const auto& [id, shadow] : state_->shadows) shadow->sweep(state_->host);
      }
    } else {
      q.journal.undo();
    }
  }
  state_->report(found);
  if (accepted) return {};
  return Failure(ErrorCode::usage, found.back().message);
}

void ValidationModel::refused(uint32_t queue, const Work& work) {
  sync::LeafLock lock(state_->mutex);
  ModelState::QueueState& q = state_->queues[queue];
  const std::shared_ptr<const ListRecord> list = q.journal.list();
  if (!list || list->title->id != work.list->id() || list->value != work.point.value.value) return;
  q.journal.undo();
  q.last = q.before_journal;
  if (!q.in_flight.empty() && q.in_flight.back() == list) q.in_flight.pop_back();
  q.last_value = q.last.at(queue);
}

void ValidationModel::host_saw(uint32_t queue, TimelineValue value) {
  sync::LeafLock lock(state_->mutex);
  state_->saw_locked(queue, value.value);
}

void ValidationModel::exported(const Point& point) {
  sync::LeafLock lock(state_->mutex);
  state_->join_point_locked(state_->outside, point);
}

void ValidationModel::let_go() {
  std::vector<ModelState::Kept> released;  // outlives the lock
  sync::LeafLock lock(state_->mutex);
  released.swap(state_->released);
}

void ValidationModel::host_access_begins(const Allocation& allocation, ByteRange range,
                                         Access access, std::string_view name) {
  if (range.empty()) return;
  std::vector<Violation> found;
  {
    sync::LeafLock lock(state_->mutex);
    const auto entry = state_->things.find(allocation.id());
    if (entry == state_->things.end()) return;
    const std::shared_ptr<Thing> thing = entry->second;
    const uint64_t begin = (thing->range.offset + range.offset).value;
    const uint64_t end = begin + range.length.value;
    AccessChecker(*state_, found).enter_host_access(thing, begin, end, access, name);
    state_->host_accesses.push_back({thing, begin, end, access, std::string(name)});
  }
  state_->report(found);
}

void ValidationModel::host_access_ends(const Allocation& allocation, ByteRange range,
                                       Access access) {
  sync::LeafLock lock(state_->mutex);
  auto& open = state_->host_accesses;
  const auto found = std::find_if(open.begin(), open.end(), [&](const ModelState::HostAccess& a) {
    return a.allocation->id == allocation.id() && a.access == access &&
           a.begin == (a.allocation->range.offset + range.offset).value &&
           a.end - a.begin == range.length.value;
  });
  if (found == open.end()) return;
  const ModelState::HostAccess ended = std::move(*found);
  open.erase(found);
  if (!writes(access) || !ended.allocation->shadow) return;
  const auto [first, last] = ended.allocation->shadow->cover(ended.begin, ended.end);
  for (auto at = first; at != last; ++at) {
    if (at->second.life == life_of(ended.allocation)) at->second.is_written = true;
  }
}

size_t ValidationModel::interval_count() const {
  sync::LeafLock lock(state_->mutex);
  size_t count = 0;
  for (const auto& [id, shadow] : state_->shadows) count += shadow->intervals.size();
  return count;
}

size_t ValidationModel::lists_in_flight() const {
  sync::LeafLock lock(state_->mutex);
  size_t count = 0;
  for (const ModelState::QueueState& queue : state_->queues) count += queue.in_flight.size();
  return count;
}

}  // namespace holdfast::hal
