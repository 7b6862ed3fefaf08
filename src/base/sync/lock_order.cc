#include "holdfast/base/sync/lock_order.h"

#ifdef HOLDFAST_LOCK_ORDER

#include <bit>
#include <cstdio>
#include <cstdlib>

#include "holdfast/base/ablation.h"
#include "holdfast/base/sync/task_local.h"

namespace holdfast::sync {
namespace {

constexpr const char* kNames[] = {
    "a caller's lock",   "a lock of retirement",        "a recorder's lock",
    "a history's lock",  "the lock of a queue's lists", "the allocator's lock",
    "a profiler's lock", "a lock that is taken alone",  "the lock of a device's loss"};

// A bit for each order, and for each place of those that have places.
constinit const TaskLocalPointer<void> held_orders;
constinit const TaskLocalPointer<void> held_places;

uint64_t bits(const TaskLocalPointer<void>& held) noexcept {
  return reinterpret_cast<uintptr_t>(held.get());
}
void set_bits(const TaskLocalPointer<void>& held, uint64_t value) noexcept {
  held.set(reinterpret_cast<void*>(value));  // NOLINT(performance-no-int-to-ptr): a slot of a word
}

uint64_t bit(unsigned number) noexcept { return uint64_t{1} << number; }
uint64_t order_bit(LockRank rank) noexcept { return bit(static_cast<unsigned>(rank.order)); }
bool has_places(LockRank rank) noexcept { return rank.order == LockOrder::history; }

[[noreturn]] void report(const char* what, LockRank rank, unsigned held,
                         const std::source_location& where) noexcept {
  std::fprintf(stderr, "holdfast: %s:%u (%s): %s %s (place %u) while the task holds %s\n",
               where.file_name(), static_cast<unsigned>(where.line()), where.function_name(), what,
               kNames[static_cast<unsigned>(rank.order)], rank.place, kNames[held]);
  std::abort();
}

// This ablation is about the very thing that is refused here.
bool is_ablated() noexcept { return ablated(Ablation::lock_held_while_holds_drop); }

}  // namespace

void check_and_note_taken(LockRank rank, const std::source_location& where) noexcept {
  if (rank.order == LockOrder::unchecked) return;
  const uint64_t orders = bits(held_orders);
  const uint64_t later = orders & ~(order_bit(rank) - 1);  // the same one included
  const bool ascends =
      has_places(rank) && later == order_bit(rank) && (bits(held_places) >> rank.place) == 0;
  if (later != 0 && !ascends && !is_ablated()) {
    report("takes", rank, static_cast<unsigned>(std::countr_zero(later)), where);
  }
  set_bits(held_orders, orders | order_bit(rank));
  if (has_places(rank)) set_bits(held_places, bits(held_places) | bit(rank.place));
}

void note_given(LockRank rank) noexcept {
  if (rank.order == LockOrder::unchecked) return;
  if (has_places(rank)) {
    set_bits(held_places, bits(held_places) & ~bit(rank.place));
    if (bits(held_places) != 0) return;
  }
  set_bits(held_orders, bits(held_orders) & ~order_bit(rank));
}

void check_only_held(LockRank rank, const std::source_location& where) noexcept {
  const uint64_t others = bits(held_orders) & ~order_bit(rank);
  if (others == 0 || is_ablated()) return;
  report("waits for a change under", rank, static_cast<unsigned>(std::countr_zero(others)), where);
}

}  // namespace holdfast::sync

#endif
