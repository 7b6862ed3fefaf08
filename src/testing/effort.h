#pragma once

#include <concepts>

#include "holdfast/base/env.h"
#include "holdfast/base/sanitizers.h"

namespace holdfast::testing {

// Whether a long test does less than it could: under a sanitizer, where each step takes many times
// as long. ./dev nightly sets HOLDFAST_NIGHTLY and has all of it done.
inline bool is_shortened() {
  return has_sanitizer() && !env::flag("HOLDFAST_NIGHTLY").value_or(false);
}

// A fifth where tests are shortened.
template <std::integral T>
T shortened(T count) {
  return is_shortened() ? count / 5 : count;
}

}  // namespace holdfast::testing
