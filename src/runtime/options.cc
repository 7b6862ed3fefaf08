#include "holdfast/runtime/options.h"

#include "holdfast/base/env.h"

namespace holdfast::runtime {

Options Options::from_environment() {
  Options options;
  if (const auto limit = env::bytes("HOLDFAST_MEMORY_LIMIT")) {
    options.memory_limit = *limit;
    options.memory_limit_from_environment = true;
  }
  if (const auto limit = env::bytes("HOLDFAST_DEFERRED_LIMIT")) options.deferred_limit = *limit;
  return options;
}

}  // namespace holdfast::runtime
