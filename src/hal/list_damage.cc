#include "holdfast/hal/list_damage.h"

namespace holdfast::hal {
namespace {

struct BoundBytes {
  ResourceId allocation;
  ByteRange range;
};

// What a binding names, slots resolved.
BoundBytes bytes_of(const CommandList& list, const BoundRange& bound) {
  if (bound.slot < 0) return {bound.id, bound.range};
  const BoundRange& slot = list.slots()[static_cast<size_t>(bound.slot)];
  return {slot.id, {slot.range.offset + bound.range.offset, bound.range.length}};
}

}  // namespace

void ListDamage::take(ResourceId allocation, ByteRange range, const Failure& cause, bool answers) {
  bad_.add(allocation, range, cause);
  if (answers) own_.add(allocation, range, cause);
}

void ListDamage::wait_failed(size_t index, const ListFailure& failure) {
  if (work_.waits[index].kind != WaitKind::data) return;
  bool is_named = false;
  for (const AwaitedBytes& awaited : work_.awaited) {
    if (awaited.wait != index) continue;
    is_named = true;
    if (!failure.damage) {
      take(awaited.allocation, awaited.range, failure.cause, awaited.answers);
      continue;
    }
    failure.damage->visit(awaited.allocation, awaited.range,
                          [&](ByteRange bad, const Failure& cause) {
                            take(awaited.allocation, bad, cause, awaited.answers);
                          });
  }
  if (is_named) return;
  if (!failure.damage) {
    if (!whole_) whole_ = failure.cause;
    return;
  }
  failure.damage->visit_all([&](ResourceId allocation, ByteRange bad, const Failure& cause) {
    take(allocation, bad, cause, false);
  });
}

bool ListDamage::enter_damaged(const Command& command) {
  for (const BoundRange& bound : command.bindings()) {
    if (!reads(bound.access)) continue;
    const BoundBytes place = bytes_of(*work_.list, bound);
    if (Failure cause = bad_.find(place.allocation, place.range)) {
      fail(command, cause);
      return false;
    }
  }
  for (const BoundRange& bound : command.bindings()) {
    if (bound.access != Access::write) continue;
    const BoundBytes place = bytes_of(*work_.list, bound);
    bad_.remove(place.allocation, place.range);
    own_.remove(place.allocation, place.range);
  }
  return true;
}

void ListDamage::fail(const Command& command, const Failure& cause) {
  for (const BoundRange& bound : command.bindings()) {
    if (!writes(bound.access)) continue;
    const BoundBytes place = bytes_of(*work_.list, bound);
    take(place.allocation, place.range, cause, true);
  }
  // A list's commands lie in recorded order.
  if (first_ != nullptr && std::less<>()(first_, &command)) return;
  first_ = &command;
  first_cause_ = cause;
}

ListFailure ListDamage::finish() {
  if (whole_) return {whole_, nullptr};
  Failure cause = first_cause_;
  if (!cause) {
    own_.visit_all([&](ResourceId, ByteRange, const Failure& carried) {
      if (!cause) cause = carried;
    });
  }
  if (!cause) return {};
  return {cause, std::make_shared<const Damage>(std::move(own_))};
}

}  // namespace holdfast::hal
