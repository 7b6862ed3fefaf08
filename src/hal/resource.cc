#include "holdfast/hal/resource.h"

#include "holdfast/base/sync/numbers_of_thread.h"

namespace holdfast::hal {

ResourceId Resource::next_id_of_thread() noexcept {
  using Numbers = sync::NumbersOfThread<ResourceId, 64>;
  return ResourceId{
      Numbers::next([](uint64_t count) { return ResourceId::next_many(count).value; })};
}

void Resource::release() const noexcept {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const_cast<Resource*>(this)->on_dead();
  unhold();
}

void Resource::destroy() const noexcept {
  if (probe_ && probe_->keeps(*this)) return;
  delete this;
}

uint32_t Resource::holds() const noexcept {
  const uint32_t all = holds_.load(std::memory_order_relaxed);
  return users() > 0 && all > 0 ? all - 1 : all;
}

}  // namespace holdfast::hal
