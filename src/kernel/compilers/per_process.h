#pragma once

#include <atomic>
#include <memory>

#include "holdfast/base/sync/process.h"

namespace holdfast::kernel {

// A T of the process, made when it is first asked for and never destroyed: threads may use it while
// the process ends. A forked child has one of its own; the parent's, which a thread of the parent
// may have had locked, is not touched there. For static storage.
template <typename T>
class PerProcess {
 public:
  T& get() {
    const uint32_t generation = sync::fork_generation();
    Slot* slot = slot_.load(std::memory_order_acquire);
    while (slot == nullptr || slot->generation != generation) {
      auto fresh = std::make_unique<Slot>(generation);
      if (slot_.compare_exchange_strong(slot, fresh.get(), std::memory_order_acq_rel)) {
        return fresh.release()->value;
      }
    }
    return slot->value;
  }

 private:
  struct Slot {
    explicit Slot(uint32_t of) : generation(of) {}
    const uint32_t generation;
    T value{};
  };
  std::atomic<Slot*> slot_{nullptr};
};

}  // namespace holdfast::kernel
