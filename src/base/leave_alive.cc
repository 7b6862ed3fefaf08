#include "holdfast/base/leave_alive.h"

#include <vector>

#include "holdfast/base/sync/process.h"

namespace holdfast {

void leave_alive(std::shared_ptr<void> object) {
  using Left = sync::ProcessGuarded<std::vector<std::shared_ptr<void>>>;
  static Left* const forever = new Left;  // NOLINT: reachable, and never destroyed
  forever->lock()->push_back(std::move(object));
}

}  // namespace holdfast
