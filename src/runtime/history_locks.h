#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/allocation.h"

namespace holdfast::runtime {

// The locks that guard the histories of a Context's Allocations. A history belongs to the lock of
// the stream that its memory was made for, so that streams with memory of their own do not meet.
// Several are taken in ascending order, which no two tasks can cross.
class HistoryLocks {
 public:
  // `before`: all lanes come after this one. Numbers count from it, so that what a program does
  // with its locks does not depend on how many lanes others had before.
  explicit HistoryLocks(hal::LaneId before = {})
      : HistoryLocks(before, std::make_index_sequence<kLocks>{}) {}

  // The locks of some Allocations, by number.
  class Set {
   public:
    explicit Set(const HistoryLocks& locks) noexcept : locks_(locks) {}
    void add(const hal::Allocation& allocation) noexcept {
      bits_ |= uint64_t{1} << locks_.number_of(allocation);
    }

   private:
    friend class HistoryLocks;
    const HistoryLocks& locks_;
    uint64_t bits_ = 0;
  };

  // The one lock of an Allocation's history.
  sync::Mutex& of(const hal::Allocation& allocation) noexcept {
    return locks_[number_of(allocation)].mutex;
  }
  // What `action` returns, with all locks of the set held. Cost: a lock for each stream whose
  // memory is among it.
  template <typename Action>
  auto with(const Set& set, const Action& action) {
    return with_bits(set.bits_, action);
  }

 private:
  // One bit of a Set each. Streams beyond that share them; the first one is of memory that was made
  // for no stream.
  static constexpr uint64_t kLocks = 64;
  uint64_t number_of(const hal::Allocation& allocation) const noexcept {
    const hal::LaneId lane = allocation.made_for();
    return lane ? 1 + (lane.value - before_.value) % (kLocks - 1) : 0;
  }

  template <typename Action>
  auto with_bits(uint64_t bits, const Action& action) -> decltype(action()) {
    if (bits == 0) return action();
    const sync::Lock lock(locks_[static_cast<unsigned>(std::countr_zero(bits))].mutex);
    return with_bits(bits & (bits - 1), action);
  }

  // Apart, so that streams do not share a line of the processor's cache.
  struct alignas(64) Apart {
    explicit Apart(size_t number) noexcept
        : mutex(sync::LockOrder::history, static_cast<uint8_t>(number)) {}
    sync::Mutex mutex;
  };
  template <size_t... kNumbers>
  HistoryLocks(hal::LaneId before, std::index_sequence<kNumbers...>)
      : before_(before), locks_{{Apart(kNumbers)...}} {}

  hal::LaneId before_;
  std::array<Apart, kLocks> locks_;
};

}  // namespace holdfast::runtime
