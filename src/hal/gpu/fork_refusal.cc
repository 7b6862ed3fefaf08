#include "holdfast/hal/gpu/fork_refusal.h"

#include <fmt/format.h>

#include "holdfast/base/sync/process.h"

namespace holdfast::hal {

Failure refusal_after_fork(std::atomic<uint64_t>& owner, std::string_view what) {
  const uint64_t here = uint64_t{sync::fork_generation()} + 1;
  uint64_t first = 0;
  if (owner.compare_exchange_strong(first, here) || first == here) return {};
  return {ErrorCode::usage,
          fmt::format("{0} was in use before this process was forked, and its drivers do not "
                      "survive a fork; fork before the first use of {0}, or let the child execute "
                      "a program of its own",
                      what)};
}

}  // namespace holdfast::hal
