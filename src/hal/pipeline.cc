#include "holdfast/hal/pipeline.h"

#include <fmt/format.h>

namespace holdfast::hal {

std::string Pipeline::describe() const {
  return fmt::format("kernel '{}' (id {})", name(), id().value);
}

}  // namespace holdfast::hal
