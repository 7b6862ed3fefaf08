#include "holdfast/base/sync/task_local.h"

#include <cstdio>
#include <cstdlib>

namespace holdfast::sync::internal {

size_t claim_task_slot(std::atomic<size_t>& slot) noexcept {
  static constinit std::atomic<size_t> claimed{0};
  const size_t mine = claimed.fetch_add(1, std::memory_order_relaxed) + 1;
  if (mine > kTaskSlots) {
    std::fputs("holdfast: more task-local pointers than kTaskSlots; raise it\n", stderr);
    std::abort();
  }
  size_t before = 0;
  // Where another task was first, the number taken here is never used.
  return slot.compare_exchange_strong(before, mine) ? mine - 1 : before - 1;
}

}  // namespace holdfast::sync::internal
