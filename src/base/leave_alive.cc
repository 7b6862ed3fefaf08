#include "holdfast/base/leave_alive.h"

#include <vector>

#include "holdfast/base/sync/mutex.h"

namespace holdfast {

void leave_alive(std::shared_ptr<void> object) {
  using Left = sync::Guarded<std::vector<std::shared_ptr<void>>>;
  static Left* const forever = new Left;  // NOLINT: reachable, and never destroyed
  forever->lock()->push_back(std::move(object));
}

}  // namespace holdfast
