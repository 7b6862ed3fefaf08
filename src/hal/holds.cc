#include "holdfast/hal/holds.h"

namespace holdfast::hal {

Holds& Holds::operator=(Holds&& other) noexcept {
  if (this != &other) {
    clear();
    held_ = std::move(other.held_);
    other.held_.clear();
  }
  return *this;
}

void Holds::add_first(const Resource& resource, ListId owner) {
  held_.push_back(&resource);
  resource.hold();
  resource.last_holder_.store(owner.value, std::memory_order_relaxed);
}

void Holds::clear() noexcept {
  for (const Resource* resource : held_) resource->unhold();
  held_.clear();
}

}  // namespace holdfast::hal
