#include "holdfast/runtime/scenarios/ablations.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

namespace holdfast::testing {
namespace {

constexpr std::array kCases{
    AblationCase{Ablation::bound_not_held, "mlx#3461: arrays dropped in flight",
                 "dropped_input_is_read_all_the_same", "is being destroyed while"},
    AblationCase{Ablation::range_recycled_at_death, "mlx#3689: pool recycles what is in flight",
                 "dropped_input_is_read_all_the_same", "nothing orders the two lives"},
    AblationCase{Ablation::donated_output_not_held, "mlx#3630: donated memory, WAR",
                 "donated_memory_is_held", "is being destroyed while"},
    AblationCase{Ablation::temporaries_not_held, "mlx#3378, 1bit-MONSTER#2213: hidden copies",
                 "staging_outlives_the_call", "staging"},
    AblationCase{Ablation::pipelines_not_held, "mlx#3347: pipeline evicted in flight",
                 "pipeline_dropped_after_record", "kernel 'evicted'"},
    AblationCase{Ablation::destroyed_at_submit, "quadrants#493: deferred list dropped at submit",
                 "dropped_input_is_read_all_the_same", "is being destroyed while"},
    AblationCase{Ablation::destroyed_at_flush_overflow, "quadrants#536: overflow at flush",
                 "many_dead_ranges_in_flight", "nothing orders the two lives"},
    AblationCase{Ablation::trim_frees_in_flight, "mlx#3689: clear_cache in flight",
                 "trim_while_dead_memory_is_read", "nothing orders the two lives"},
    AblationCase{Ablation::war_ignored, "mlx#3630: write after read",
                 "read_then_overwritten_in_one_list", "may still read them"},
    AblationCase{Ablation::hazards_by_view, "llama.cpp#15929: overlapping views",
                 "overlapping_views_are_ordered", "may still write them"},
    AblationCase{Ablation::cross_queue_reuse_unordered, "pytorch#23729: reuse across streams",
                 "range_read_on_another_queue_is_reused", "nothing orders the two lives"},
    AblationCase{Ablation::host_access_not_ordered, "1bit-MONSTER#2213: host races the copy",
                 "readback_waits_for_its_writer", "the host access 'readback'"},
    AblationCase{Ablation::shared_parameter_slot, "quadrants#649: parameters of the last call",
                 "each_dispatch_has_its_own_parameters", "parameters"},
    AblationCase{Ablation::identity_by_recycled_address, "mlx#3832, warp#1696: identity reused",
                 "new_stream_is_not_the_one_before", "nothing orders the two"},
    AblationCase{Ablation::retire_on_overflow_only, "quadrants#538: memory grows without bound",
                 "finished_work_is_retired_by_the_next_flush", "finished lists are still held"},
    AblationCase{Ablation::readback_does_not_retire, "wgpu#3806: nothing is released",
                 "readback_retires_what_it_saw", "what was read back is still held"},
    AblationCase{Ablation::point_before_error, "mlx#4174: silent zeros after a failure",
                 "failure_is_never_taken_for_success", "a failed list counts as done"},
    AblationCase{Ablation::lock_held_while_holds_drop, "burn#2032: callback under a lock",
                 "deleter_may_call_the_runtime", "deadlock"},
    AblationCase{Ablation::fifo_of_three_drains, "quadrants#538: stall at every overflow",
                 "flushing_never_waits_unasked", "waits"},
    AblationCase{Ablation::drain_every_32_flushes, "quadrants#538: stall every N flushes",
                 "flushing_never_waits_unasked", "waits"},
};
static_assert(kCases.size() == static_cast<size_t>(kFirstKernelAblation),
              "every ablation of the runtime has a scenario that kills it");

// Ids count through the whole process; without them the same failure has the same words. On one
// line, for the table.
std::string without_ids(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' || (text[i] == ' ' && !out.empty() && out.back() == ' ')) {
      if (!out.empty() && out.back() != ' ') out += ' ';
      continue;
    }
    out += text[i];
    if (i < 2 || text.compare(i - 2, 3, "id ") != 0) continue;
    while (i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])) != 0) ++i;
    out += '#';
  }
  return out;
}

}  // namespace

std::span<const AblationCase> ablation_cases() { return kCases; }

Kill kill(const AblationCase& ablation, uint64_t max_schedules, Family family) {
  Kill kill;
  const Scenario* scenario = find_scenario(ablation.scenario);
  if (scenario == nullptr) {
    kill.sentence = fmt::format("there is no scenario '{}'", ablation.scenario);
    return kill;
  }
  const ScopedAblation off(ablation.ablation);
  const auto skipped = std::make_shared<std::string>();
  const simulation::Program program = as_program(scenario->body, family, skipped);
  // No faults: the safety alone is missing.
  const simulation::Exploration done = simulation::explore(
      program, {1, max_schedules}, [](uint64_t) { return std::vector<std::string>(); });
  kill.schedules = done.schedules;
  kill.skipped = *skipped;
  if (!done.finding) return kill;
  kill.digest = done.finding->result.outcome.digest;
  kill.sentence = without_ids(done.finding->result.failure);
  kill.replay_line = fmt::format(
      "HOLDFAST_ABLATE={} {} build/dev/holdfast_scenarios "
      "--gtest_filter={}",
      ablation_token(ablation.ablation), simulation::replay_line(done.finding->shortest),
      adversary_test(ablation.scenario, family));
  // Anything else that goes wrong proves nothing about this safety.
  kill.killed = done.finding->repeats && kill.sentence.find(ablation.says) != std::string::npos;
  return kill;
}

}  // namespace holdfast::testing
