#include <algorithm>
#include <cstring>

#include "holdfast/hal/adversary/adversary_core.h"

// The part of the core that knows lives: who keeps what, and what is garbage.

namespace holdfast::hal {
namespace {

constexpr int kScribble = 0xDB;

}  // namespace

AdversaryPlace place_of(const CommandList& list, const BoundRange& bound) {
  if (bound.slot < 0) {
    return {bound.allocation, bound.id, bound.range.offset, bound.range.length};
  }
  const BoundRange& slot = list.slots()[static_cast<size_t>(bound.slot)];
  return {slot.allocation, slot.id, slot.range.offset + bound.range.offset, bound.range.length};
}

void AdversaryCore::made(const Buffer& buffer) {
  const sync::LeafLock lock(mutex_);
  buffer_numbers_.emplace(buffer.id(), buffers_made_++);
}

uint64_t AdversaryCore::number_locked(const Buffer& buffer) const {
  const auto found = buffer_numbers_.find(buffer.id());
  return found != buffer_numbers_.end() ? found->second : Touched::unknown_buffer;
}

bool AdversaryCore::needed_locked(ResourceId id) const {
  for (const QueueState& q : queues_) {
    for (const auto& list : q.lists) {
      if (list->executed) continue;
      if (std::find(list->resources.begin(), list->resources.end(), id) != list->resources.end()) {
        return true;
      }
    }
  }
  return false;
}

void AdversaryCore::born(const Allocation& allocation) noexcept {
  const Buffer& buffer = *allocation.buffer();
  const sync::LeafLock lock(mutex_);
  alive_.insert(allocation.id());
  // What nobody tells us about (imports, buffers used whole) may have content that counts.
  if (buffer.owner() == nullptr || buffer.is_imported()) return;
  lives_.begin(buffer.id(), {allocation.offset(), allocation.size()}, allocation.id());
}

bool AdversaryCore::keeps(const Resource& resource) noexcept {
  const auto* allocation = dynamic_cast<const Allocation*>(&resource);
  const sync::LeafLock lock(mutex_);
  const bool keep = needed_locked(resource.id());
  if (keep) kept_resources_.emplace_back(resource);
  if (allocation == nullptr) return keep;
  alive_.erase(allocation->id());
  const Buffer& buffer = *allocation->buffer();
  // With the lock held: nobody can begin another life there meanwhile.
  for (const ByteRange& range :
       lives_.end(buffer.id(), {allocation->offset(), allocation->size()}, allocation->id())) {
    scribble_locked(buffer, range);
  }
  return keep;
}

bool AdversaryCore::keeps(Buffer& buffer) noexcept {
  const sync::LeafLock lock(mutex_);
  lives_.forget(buffer.id());
  const bool needed = std::any_of(queues_.begin(), queues_.end(), [&](const QueueState& q) {
    return std::any_of(q.lists.begin(), q.lists.end(), [&](const auto& list) {
      return !list->executed && std::find(list->buffers.begin(), list->buffers.end(),
                                          buffer.id()) != list->buffers.end();
    });
  });
  if (!needed) {
    buffer_numbers_.erase(buffer.id());
    return false;
  }
  kept_buffers_.emplace_back(&buffer);
  if (!buffer.is_imported()) scribble_locked(buffer, {{}, buffer.size()});
  return true;
}

void AdversaryCore::host_access(const Allocation& allocation, ByteRange range,
                                Access access) noexcept {
  uint64_t number = 0;
  {
    const sync::LeafLock lock(mutex_);
    number = number_locked(*allocation.buffer());
    lives_.first_touch(allocation.buffer()->id(), {allocation.offset(), allocation.size()},
                       allocation.id());
  }
  const uint64_t begin = (allocation.offset() + range.offset).value;
  if (scheduler_ != nullptr) {
    scheduler_->touch(number, begin, begin + range.length.value, writes(access));
  }
}

// Before the first command of a life its bytes are nobody's: whatever they hold is garbage.
void AdversaryCore::scribble_new_lives(size_t queue, const AdversaryList& list,
                                       const Command& command) {
  for (const BoundRange& bound : command.bindings()) {
    const AdversaryPlace place = place_of(*list.work->list, bound);
    Allocation& allocation = *place.allocation;
    const ByteRange life{allocation.offset(), allocation.size()};
    bool unreachable = false;
    uint64_t number = 0;
    {
      const sync::LeafLock lock(mutex_);
      const bool first = lives_.first_touch(allocation.buffer()->id(), life, place.id);
      unreachable = first && !scribble_locked(*allocation.buffer(), life);
      number = number_locked(*allocation.buffer());
    }
    if (unreachable) {
      // Lists hold what they bind, but an ablation may take that from this one too.
      const Ref<Allocation> whole = Allocation::unseen(allocation.buffer());
      CommandList fill(inner_->info(), "scribble");
      fill.fill(whole, life, std::byte{kScribble}, "scribble");
      // Memory that cannot be scribbled over stays as it is: less hostile, never wrong.
      (void)run_now(queue, fill, nullptr, nullptr);
    }
    if (scheduler_ == nullptr) continue;
    const uint64_t begin = (allocation.offset() + place.offset).value;
    scheduler_->touch(number, begin, begin + place.length.value, writes(bound.access));
    if (unreachable) scheduler_->touch(number, life.offset.value, life.end().value, true);
  }
  // A callback may touch whatever it likes on the host.
  if (scheduler_ != nullptr && command.kind == CommandKind::native) {
    scheduler_->touch(Touched::callbacks, 0, 1, true);
  }
}

// Whether the host reaches the memory, or nobody any more.
bool AdversaryCore::scribble_locked(const Buffer& buffer, ByteRange range) noexcept {
  if (memory_gone_) return true;
  std::byte* const host = buffer.host_pointer();
  if (host == nullptr) return false;
  if (scheduler_ != nullptr) {
    scheduler_->touch(number_locked(buffer), range.offset.value, range.end().value, true);
  }
  std::memset(host + range.offset.value, kScribble, range.length.value);
  return true;
}

}  // namespace holdfast::hal
