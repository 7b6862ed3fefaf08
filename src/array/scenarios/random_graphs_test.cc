#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "holdfast/array/scenarios/random_graphs_search_test.h"
#include "holdfast/base/ablation.h"
#include "holdfast/base/env.h"
#include "holdfast/base/sanitizers.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/testing/effort.h"

namespace holdfast::random_graphs {
namespace {

void expect_no_failure(const Effort& effort) {
  fmt::print("seed {}\n", effort.seed);
  std::fflush(stdout);  // a run that is killed must have said it
  const sync::TimePoint begin = sync::now();
  const Verdict verdict = check(effort);
  const double seconds = std::chrono::duration<double>(sync::now() - begin).count();
  const Tally& t = verdict.tally;
  fmt::print("{} programs of {} steps, {} schedules of {} steps, {} contended, {:.1f} s\n",
             t.programs, t.steps, t.schedules, t.simulated_steps, t.contended, seconds);
  fmt::print("with threads {} nodes, {} donated, {} copies, {} evictions, {} early submits\n",
             t.nodes, t.donated, t.copies, t.evictions, t.early_submits);
  if (!verdict.failure.empty()) FAIL() << verdict.failure;
  if (!effort.threads) return;
  // All that is worth testing does happen.
  EXPECT_GT(t.contended, t.programs);
  EXPECT_GT(t.nodes, 10 * t.programs);
  EXPECT_GT(t.donated, t.programs);
  EXPECT_GT(t.copies, t.programs);
  EXPECT_GT(t.evictions, t.programs);
  EXPECT_GT(t.early_submits, t.programs);
}

TEST(RandomGraphs, show_what_an_eager_host_computes) {
  expect_no_failure({.programs = testing::shortened(kPrograms)});
}

// HOLDFAST_SCHEDULES says how many programs the long ones run.
uint64_t many() { return env::number("HOLDFAST_SCHEDULES").value_or(kPrograms * kNightly); }

TEST(RandomGraphs, show_what_an_eager_host_computes_nightly) {
  expect_no_failure({.seed = std::random_device()(), .programs = many()});
}

// Most of what can go wrong between tasks and lists needs no more than this.
TEST(RandomGraphs, of_kernels_and_handles_show_what_an_eager_host_computes_nightly) {
  expect_no_failure({.seed = std::random_device()(),
                     .programs = many(),
                     .schedules = kSchedules * 2,
                     .threads = false,
                     .weights = kernels_and_handles()});
}

void expect_in_every_mode(const testing::ScenarioBody& body) {
  for (const World::Mode mode :
       {World::Mode::plain, World::Mode::validate, World::Mode::adversary}) {
    testing::run_scenario(body, mode, testing::family_of_bodies());
  }
}

// Programs in the same words that show one thing each. A counterexample is pasted here.
// HOLDFAST_ADVERSARY replays one schedule of one of them.

void expect_right(const Program& program) {
  expect_in_every_mode([&](World& world) { (void)run_program(world, program); });
}

TEST(RandomGraphs, read_an_array_beside_the_one_who_takes_its_memory) {
  expect_right({.ops = {{.verb = Verb::affine},
                        {.verb = Verb::affine_as_it_lies, .c = 1},
                        {.verb = Verb::taken, .c = 2, .gives_up = true},
                        {.verb = Verb::async_all}}});
}

TEST(RandomGraphs, hold_a_map_while_its_array_is_updated) {
  if (testing::family_of_bodies() != testing::Family::cpu) GTEST_SKIP() << testing::kMapsMemory;
  expect_right({.queues = 2,
                .streams = 2,
                .ops = {{.verb = Verb::affine},
                        {.verb = Verb::hold_map},
                        {.verb = Verb::update, .stream = 1, .gives_up = true, .detail = 3},
                        {.verb = Verb::taken, .stream = 1, .gives_up = true},
                        {.verb = Verb::async_all},
                        {.verb = Verb::upload, .c = 1}}});
}

TEST(RandomGraphs, evaluate_what_two_tasks_share_from_both_and_drop_it) {
  expect_right(
      {.queues = 2,
       .streams = 2,
       .ops = {{.verb = Verb::affine},
               {.verb = Verb::mix, .c = 3},
               {.verb = Verb::share, .a = 3, .c = 1},
               {.verb = Verb::pair, .task = 1, .stream = 1, .a = 3, .b = 3, .gives_up = true},
               {.verb = Verb::split, .a = 1, .c = 1, .gives_up = true},
               {.verb = Verb::async_all},
               {.verb = Verb::async_all, .task = 1},
               {.verb = Verb::drop_elsewhere, .task = 1},
               {.verb = Verb::clear_cache}}});
}

// An update writes some elements of memory that it takes over; the others stay as they are, which
// may be unknown.
class Explodes final : public Operation {
 public:
  std::string_view name() const noexcept override { return "explodes"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    encoder.native([](const hal::NativeCall&) { throw std::runtime_error("it exploded"); }, {},
                   {&out, 1});
  }
};

void update_what_a_failed_list_left(World& world) {
  const ArrayRig rig(world);
  Array x = apply(make_ref<const Explodes>(), {}, OutputType{{5}, float32});
  try {
    async_eval(x);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it may be over already
  }
  const Array y = slice_update(std::move(x), full({}, 7.0), {{.step = 2}});
  x = Array();
  try {
    (void)y.to_vector<float>();
  } catch (const Error&) {
    return;
  }
  world.fail("elements were read that nobody has written");
}

void evaluate_on_two_devices_at_once(World& world) {
  const ArrayRig first(world);
  const ArrayRig second(world);
  const auto chain = [](const ArrayRig& rig, float start) {
    Array x(std::vector<float>{start, start + 1}, {2}, {}, rig.stream());
    static const Kernel plus_one = elementwise_kernel("plus_one", "a[i] + T(1)");
    for (int i = 0; i < 3; ++i) x = run(plus_one, x, {}, rig.stream());
    return x;
  };
  const Array a = chain(first, 10);
  const Array b = chain(second, 20);
  eval(a, b);
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{13, 14}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{23, 24}));
}

TEST(RandomGraphs, never_show_what_a_failed_list_left_beside_an_update) {
  expect_in_every_mode(update_what_a_failed_list_left);
}

TEST(RandomGraphs, evaluate_arrays_of_two_devices_at_once) {
  expect_in_every_mode(evaluate_on_two_devices_at_once);
}

#ifdef HOLDFAST_ABLATIONS

Effort search(uint64_t programs) {
  return {.programs = programs,
          .schedules = 2,
          .threads = false,
          .weights = kernels_and_handles(),
          .shrinks = 100};
}

// Some program shows that a safety is missing, and can be made small.
void expect_found(Ablation missing) {
  SCOPED_TRACE(ablation_token(missing));
  const ScopedAblation ablation(missing);
  const Verdict first = check(search(400));
  ASSERT_TRUE(first.smallest) << "it was not found";
  EXPECT_LE(first.smallest->ops.size(), 6U) << first.failure;
}

TEST(RandomGraphs, find_the_same_program_again_from_the_same_seed) {
  if (testing::is_shortened()) GTEST_SKIP() << "the search is the same, and takes minutes";
  const ScopedAblation ablation(Ablation::hazards_by_view);
  const Verdict first = check(search(400));
  const Verdict again = check(search(400));
  ASSERT_TRUE(first.smallest);
  ASSERT_TRUE(again.smallest);
  EXPECT_EQ(source_of(*first.smallest), source_of(*again.smallest));
}

TEST(RandomGraphs, find_out_where_a_safety_is_missing) {
  if (has_sanitizer())
    GTEST_SKIP() << "what is missing is then the sanitizer's to report, and ends the process";
  // The control: what the others find is the ablation's doing.
  ASSERT_EQ(check(search(100)).failure, "");
  for (const Ablation missing :
       {Ablation::bound_not_held, Ablation::range_recycled_at_death,
        Ablation::donated_output_not_held, Ablation::temporaries_not_held,
        Ablation::pipelines_not_held, Ablation::destroyed_at_submit,
        Ablation::destroyed_at_flush_overflow, Ablation::trim_frees_in_flight,
        Ablation::war_ignored, Ablation::hazards_by_view, Ablation::cross_queue_reuse_unordered,
        Ablation::host_access_not_ordered, Ablation::shared_parameter_slot}) {
    expect_found(missing);
  }
}

#endif

}  // namespace
}  // namespace holdfast::random_graphs
