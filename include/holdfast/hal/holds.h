#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "holdfast/hal/resource.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// The Resources that a list keeps from destruction. Filled by the very call that binds them.
// Not thread-safe, but distinct lists may hold one Resource from distinct threads.
class Holds {
 public:
  Holds() = default;
  Holds(Holds&& other) noexcept = default;
  Holds& operator=(Holds&& other) noexcept;
  // Drops the holds, which may destroy Resources: no lock may be held.
  ~Holds() { clear(); }

  // Cost: one load and compare where `owner` was the last to hold it; else a push and an atomic
  // increment. Two lists that alternate on one Resource may hold it twice, which is harmless.
  void add(const Resource& resource, ListId owner) {
    if (resource.last_holder_.load(std::memory_order_relaxed) == owner.value) return;
    add_first(resource, owner);
  }

  // Makes room, so that the next n calls of add cannot fail.
  void reserve(size_t n) {
    if (held_.capacity() - held_.size() < n) {
      held_.reserve(std::max(2 * held_.capacity(), held_.size() + n));
    }
  }
  size_t size() const noexcept { return held_.size(); }
  auto begin() const noexcept { return held_.begin(); }
  auto end() const noexcept { return held_.end(); }
  // Cost: one drop for each hold. Keeps the storage for the next list.
  void clear() noexcept;

 private:
  void add_first(const Resource& resource, ListId owner);
  std::vector<const Resource*> held_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
