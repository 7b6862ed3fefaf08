#include "holdfast/hal/gpu/memory_share.h"

#include <fmt/format.h>

namespace holdfast::hal {

Failure MemoryShare::refusal(Bytes most, Bytes limit, std::string_view what) const {
  const auto refuse = [&](const std::string& why) {
    return Failure(ErrorCode::out_of_memory, fmt::format("{}: {}", what, why));
  };
  if (size_ > most) {
    const auto [wanted, possible] = told_apart(size_, most);
    return refuse(
        fmt::format("one buffer has at most {}, which is less than {}", possible, wanted));
  }
  if (before_ > limit || size_ > limit - before_) {
    const auto [used, possible] = told_apart(before_, limit);
    return refuse(fmt::format("{} of {} are in use", used, possible));
  }
  return {};
}

}  // namespace holdfast::hal
