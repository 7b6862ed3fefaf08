#include "holdfast/base/ablation.h"

#include <fmt/format.h>

#include "holdfast/base/env.h"
#include "holdfast/base/error.h"

namespace holdfast {

#ifdef HOLDFAST_ABLATIONS

namespace internal {
std::atomic<uint64_t> ablation_bits{0};
}

std::string_view ablation_token(Ablation ablation) {
  switch (ablation) {
    case Ablation::bound_not_held: return "bound-not-held";
    case Ablation::range_recycled_at_death: return "range-recycled-at-death";
    case Ablation::donated_output_not_held: return "donated-output-not-held";
    case Ablation::temporaries_not_held: return "temporaries-not-held";
    case Ablation::pipelines_not_held: return "pipelines-not-held";
    case Ablation::destroyed_at_submit: return "destroyed-at-submit";
    case Ablation::destroyed_at_flush_overflow: return "destroyed-at-flush-overflow";
    case Ablation::trim_frees_in_flight: return "trim-frees-in-flight";
    case Ablation::war_ignored: return "war-ignored";
    case Ablation::hazards_by_view: return "hazards-by-view";
    case Ablation::cross_queue_reuse_unordered: return "cross-queue-reuse-unordered";
    case Ablation::host_access_not_ordered: return "host-access-not-ordered";
    case Ablation::shared_parameter_slot: return "shared-parameter-slot";
    case Ablation::identity_by_recycled_address: return "identity-by-recycled-address";
    case Ablation::retire_on_overflow_only: return "retire-on-overflow-only";
    case Ablation::readback_does_not_retire: return "readback-does-not-retire";
    case Ablation::point_before_error: return "point-before-error";
    case Ablation::lock_held_while_holds_drop: return "lock-held-while-holds-drop";
    case Ablation::fifo_of_three_drains: return "fifo-of-three-drains";
    case Ablation::drain_every_32_flushes: return "drain-every-32-flushes";
    case Ablation::kernel_key_by_name: return "kernel-key-by-name";
    case Ablation::kernel_key_clear_on_mismatch: return "kernel-key-clear-on-mismatch";
    case Ablation::evicted_in_flight: return "evicted-in-flight";
    case Ablation::cached_before_compiled: return "cached-before-compiled";
    case Ablation::hash_without_equality: return "hash-without-equality";
    case Ablation::key_without_lengths: return "key-without-lengths";
    case Ablation::scratch_not_held: return "scratch-not-held";
    case Ablation::donated_while_seen: return "donated-while-seen";
    case Ablation::program_by_address: return "program-by-address";
    case Ablation::program_key_without_shape: return "program-key-without-shape";
    case Ablation::program_keeps_first_state: return "program-keeps-first-state";
    case Ablation::arena_shared_by_replays: return "arena-shared-by-replays";
    case Ablation::arena_freed_after_first_reader: return "arena-freed-after-first-reader";
    case Ablation::graph_reused_in_flight: return "graph-reused-in-flight";
    case Ablation::graph_keeps_stale_parameters: return "graph-keeps-stale-parameters";
    case Ablation::graph_key_without_kernels: return "graph-key-without-kernels";
  }
  return "";
}

ScopedAblation::ScopedAblation(Ablation ablation)
    : before_(internal::ablation_bits.fetch_or(uint64_t{1} << static_cast<unsigned>(ablation))) {}
ScopedAblation::~ScopedAblation() { internal::ablation_bits.store(before_); }

void read_safety_overrides() {
  for (const std::string& word : env::list("HOLDFAST_ABLATE")) {
    bool known = false;
    std::string tokens;
    for (unsigned i = 0; i < kAblationCount; ++i) {
      const std::string_view token = ablation_token(static_cast<Ablation>(i));
      tokens += fmt::format("{}{}", i == 0 ? "" : ", ", token);
      if (token != word) continue;
      internal::ablation_bits.fetch_or(uint64_t{1} << i);
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
