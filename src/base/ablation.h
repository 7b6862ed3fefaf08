#pragma once

// Ablations: one safety switched off, to show what it protects or what it costs. They exist only
// where HOLDFAST_ABLATIONS is defined (the dev, bench and sanitizer presets); release code holds
// none of them, and there `ablated` is the constant false.

#ifdef HOLDFAST_ABLATIONS
#include <atomic>
#include <cstdint>
#include <string_view>
#endif

namespace holdfast {

enum class Ablation : unsigned {
  bound_not_held,         // binding neither holds the Allocation nor marks its Frontier
  fifo_of_three_drains,   // more than three displaced submissions: wait for the whole queue
  drain_every_32_flushes  // every 32nd flush waits for the whole queue
};

#ifdef HOLDFAST_ABLATIONS

inline constexpr unsigned kAblationCount = 3;
// The kebab-case token of HOLDFAST_ABLATE.
std::string_view ablation_token(Ablation ablation);

namespace internal {
extern std::atomic<uint32_t> ablation_bits;
}

// Thread-safe; one relaxed load.
inline bool ablated(Ablation a) noexcept {
  return ((internal::ablation_bits.load(std::memory_order_relaxed) >> static_cast<unsigned>(a)) &
          1U) != 0;
}

// Switches one ablation on for a scope. Scopes nest; they are process-wide, not per thread.
class ScopedAblation {
 public:
  explicit ScopedAblation(Ablation ablation);
  ~ScopedAblation();
  ScopedAblation(const ScopedAblation&) = delete;
  ScopedAblation& operator=(const ScopedAblation&) = delete;

 private:
  uint32_t before_;
};

#else

constexpr bool ablated(Ablation) noexcept { return false; }

#endif

// Called once by each Context: switches on what HOLDFAST_ABLATE names. An unknown token, or the
// variable in a build without ablations, raises EnvironmentError: a run that was meant to lack a
// safety must not pass for one that has it.
void read_safety_overrides();

}  // namespace holdfast
