#include "holdfast/base/sanitizers.h"

namespace holdfast {

bool has_address_sanitizer() noexcept {
#if defined(__SANITIZE_ADDRESS__)
  return true;
#else
  return false;
#endif
}

bool has_thread_sanitizer() noexcept {
#if defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

}  // namespace holdfast
