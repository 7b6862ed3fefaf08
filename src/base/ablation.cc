#include "holdfast/base/ablation.h"

#include <fmt/format.h>

#include "holdfast/base/env.h"
#include "holdfast/base/error.h"

namespace holdfast {

#ifdef HOLDFAST_ABLATIONS

namespace internal {
std::atomic<uint32_t> ablation_bits{0};
}

std::string_view ablation_token(Ablation ablation) {
  switch (ablation) {
    case Ablation::bound_not_held: return "bound-not-held";
    case Ablation::fifo_of_three_drains: return "fifo-of-three-drains";
    case Ablation::drain_every_32_flushes: return "drain-every-32-flushes";
  }
  return "";
}

ScopedAblation::ScopedAblation(Ablation ablation)
    : before_(internal::ablation_bits.fetch_or(1U << static_cast<unsigned>(ablation))) {}
ScopedAblation::~ScopedAblation() { internal::ablation_bits.store(before_); }

void read_safety_overrides() {
  for (const std::string& word : env::list("HOLDFAST_ABLATE")) {
    bool known = false;
    std::string tokens;
    for (unsigned i = 0; i < kAblationCount; ++i) {
      const std::string_view token = ablation_token(static_cast<Ablation>(i));
      tokens += fmt::format("{}{}", i == 0 ? "" : ", ", token);
      if (token != word) continue;
      internal::ablation_bits.fetch_or(1U << i);
      known = true;
    }
    if (!known) {
      throw EnvironmentError(fmt::format(
          "HOLDFAST_ABLATE names '{}', which does not exist; it may name {}", word, tokens));
    }
  }
}

#else

void read_safety_overrides() {
  if (const auto words = env::text("HOLDFAST_ABLATE")) {
    throw EnvironmentError(
        fmt::format("HOLDFAST_ABLATE is set to '{}', but this is a release build, which has every "
                    "safety compiled in; unset it or use the dev or bench preset",
                    *words));
  }
}

#endif

}  // namespace holdfast
