#include "holdfast/base/sync/task_local.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace holdfast::sync::internal {

size_t claim_task_slot() noexcept {
  static std::atomic<size_t> claimed{0};
  const size_t slot = claimed.fetch_add(1, std::memory_order_relaxed);
  if (slot >= kTaskSlots) {
    std::fputs("holdfast: more task-local pointers than kTaskSlots; raise it\n", stderr);
    std::abort();
  }
  return slot;
}

}  // namespace holdfast::sync::internal
