#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <optional>
#include <random>
#include <sstream>

#include "holdfast/base/ablation.h"
#include "holdfast/base/sanitizers.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/runtime/scenarios/random_programs.h"
#include "holdfast/testing/effort.h"
#include "holdfast/testing/scenario.h"

namespace holdfast::testing::random_programs {
namespace {

// How much of everything. The numbers keep all properties of one build within 15 seconds, and those
// of an instrumented one, which is slower by far, within a minute.
const int kPrograms = has_sanitizer() ? 150 : 1000;
constexpr uint64_t kSchedules = 4;
constexpr int kLongest = 60;  // ops
constexpr uint64_t kMostShrinks = 2000;
constexpr int kNightly = 50;  // times as many
// On a GPU each run opens a device, which takes longer than all else in it.
const int kGpuPrograms = kPrograms / 10;
constexpr uint64_t kGpuSchedules = 2;

rc::Gen<unsigned> below(unsigned n) { return rc::gen::inRange(0U, n); }

rc::Gen<Op> any_op() {
  using enum Verb;
  return rc::gen::build<Op>(
      rc::gen::set(&Op::verb, rc::gen::weightedElement<Verb>({{4, fill},
                                                              {8, affine},
                                                              {8, add},
                                                              {6, mix},
                                                              {6, copy},
                                                              {2, native},
                                                              {4, transaction},
                                                              {1, rollback},
                                                              {4, replay},
                                                              {1, record_fixed},
                                                              {3, replay_fixed},
                                                              {4, upload},
                                                              {6, readback},
                                                              {2, map_read},
                                                              {2, map_write},
                                                              {2, map_update},
                                                              {2, map_beside},
                                                              {6, allocate},
                                                              {1, import},
                                                              {4, drop},
                                                              {3, drop_elsewhere},
                                                              {6, flush},
                                                              {2, wait_for},
                                                              {1, synchronize},
                                                              {1, synchronize_all},
                                                              {1, retire},
                                                              {1, trim},
                                                              {1, new_stream}})),
      rc::gen::set(&Op::task, below(kTasks)), rc::gen::set(&Op::stream, below(4)),
      rc::gen::set(&Op::a, below(kArrayChoices)), rc::gen::set(&Op::b, below(kArrayChoices)),
      rc::gen::set(&Op::c, below(kArrayChoices)), rc::gen::set(&Op::at, below(8)),
      rc::gen::set(&Op::length, below(8)), rc::gen::set(&Op::to, below(8)),
      rc::gen::set(&Op::value, below(256)));
}

rc::Gen<Program> any_program() {
  return rc::gen::build<Program>(
      rc::gen::set(&Program::queues, rc::gen::inRange(1U, 4U)),
      rc::gen::set(&Program::streams, rc::gen::inRange(1U, 5U)),
      rc::gen::set(&Program::host_visible, rc::gen::arbitrary<bool>()),
      rc::gen::set(&Program::tight, rc::gen::arbitrary<bool>()),
      rc::gen::set(&Program::reaper, rc::gen::arbitrary<bool>()),
      rc::gen::set(&Program::seed, rc::gen::noShrink(rc::gen::inRange<uint64_t>(1, 1U << 30))),
      rc::gen::set(&Program::ops, rc::gen::container<std::vector<Op>>(any_op())));
}

// What goes wrong under a seed: nothing for every other one, else one thing or two.
std::vector<std::string> faults_of(uint64_t seed) {
  simulation::Random random(seed);
  std::vector<std::string> faults;
  if (seed % 2 == 0) return faults;
  for (uint64_t n = 1 + random.below(2); n > 0; --n) {
    const auto kind = static_cast<hal::FaultKind>(random.below(hal::kFaultKinds));
    uint64_t opportunities = 1000;  // steps
    if (kind == hal::FaultKind::alloc) opportunities = 3;
    if (kind == hal::FaultKind::submit) opportunities = 20;
    if (kind == hal::FaultKind::command) opportunities = 40;
    if (kind == hal::FaultKind::lost) opportunities = 60;
    faults.push_back(fmt::format("{}@{}", hal::to_string(kind), 1 + random.below(opportunities)));
  }
  return faults;
}

// Whether a call may fail for it: nobody's drop, trim or retirement is a reason to.
bool may_raise(const std::vector<std::string>& faults) {
  return std::ranges::any_of(faults, [](const std::string& fault) {
    const hal::FaultKind kind = hal::FaultPlan::parse(fault).faults()[0].kind;
    return kind < hal::FaultKind::trim || kind == hal::FaultKind::limit;
  });
}

simulation::Program simulated(const Program& program) {
  return [program](simulation::Driver& driver, const std::vector<std::string>& faults, bool trace) {
    const bool raises = may_raise(faults);
    const ScenarioBody body = [&](World& world) { run_program(world, program, raises); };
    return as_program(body, program.family)(driver, faults, trace);
  };
}

// What was done in all.
struct Tally {
  uint64_t programs = 0;
  uint64_t steps = 0;
  uint64_t schedules = 0;
  uint64_t simulated_steps = 0;
};

// What is wrong with how a program runs; empty: nothing.
std::string fault_with_threads(const Program& program, World::Mode mode) {
  World world(mode, {}, program.family);
  world.run([&] { run_program(world, program); });
  std::string failure = world.failure();
  if (failure.empty()) return failure;
  return fmt::format("{}: {}", mode == World::Mode::plain ? "with threads" : "under validate",
                     failure);
}

std::string fault_in_simulation(const Program& program, uint64_t schedules, Tally& tally) {
  const simulation::Program run = simulated(program);
  for (uint64_t seed = program.seed; seed - program.seed < schedules; ++seed) {
    const simulation::Variant variant{seed, {}, faults_of(seed)};
    const simulation::Result result = simulation::run_variant(run, variant);
    ++tally.schedules;
    tally.simulated_steps += result.outcome.steps;
    if (!result.failure.empty()) {
      return fmt::format("{}\n  replay: {}", result.failure, simulation::replay_line(variant));
    }
  }
  return {};
}

struct Effort {
  uint64_t seed = 1;
  int programs = kPrograms;
  uint64_t schedules = kSchedules;
  bool threads = true;
  Family family = Family::cpu;

  // A smaller program has fewer schedules that fail, and they are cheap.
  void look_closer(bool in_simulation) {
    threads = threads && !in_simulation;
    schedules = in_simulation ? schedules * 8 : 0;
  }
};

struct Verdict {
  Tally tally;
  // Of the smallest program that fails: all there is to say. Empty: none does.
  std::string failure;
  std::optional<Program> smallest;
};

// The schedule that makes it fail, made as short as it gets.
std::string explain(const Program& program, uint64_t schedules) {
  const simulation::Program run = simulated(program);
  for (uint64_t seed = program.seed; seed - program.seed < schedules; ++seed) {
    const simulation::Variant variant{seed, {}, faults_of(seed)};
    if (simulation::run_variant(run, variant).failure.empty()) continue;
    return simulation::to_string(simulation::shrink(run, variant));
  }
  return {};
}

// The verdict says it all.
class Silent final : public rc::detail::TestListener {
 public:
  // NOLINTBEGIN(readability-identifier-naming): names of rapidcheck
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
  // NOLINTEND(readability-identifier-naming)
};

Verdict check(Effort effort) {
  Verdict verdict;
  std::string last;
  uint64_t shrinks = 0;
  const auto property = [&] {
    Program program = *any_program();
    program.family = effort.family;
    if (verdict.smallest && ++shrinks > kMostShrinks) return;
    ++verdict.tally.programs;
    verdict.tally.steps += step_count(program);
    std::string failure;
    if (effort.threads) failure = fault_with_threads(program, World::Mode::plain);
    if (effort.threads && failure.empty()) {
      failure = fault_with_threads(program, World::Mode::validate);
    }
    const bool in_simulation = failure.empty();
    if (in_simulation) failure = fault_in_simulation(program, effort.schedules, verdict.tally);
    if (failure.empty()) return;
    if (!verdict.smallest) effort.look_closer(in_simulation);
    // Only ever smaller ones are tried after the first.
    verdict.smallest = program;
    last = failure;
    RC_FAIL(failure);
  };
  rc::detail::TestParams params;
  params.seed = effort.seed;
  params.maxSuccess = effort.programs;
  params.maxSize = kLongest;
  Silent silent;
  const rc::detail::TestResult result =
      rc::detail::checkTestable(property, rc::detail::TestMetadata{}, params, silent,
                                std::unordered_map<std::string, rc::detail::Reproduce>{});
  if (result.is<rc::detail::SuccessResult>()) return verdict;
  std::ostringstream text;
  if (verdict.smallest) {
    text << *verdict.smallest << last << "\n" << explain(*verdict.smallest, effort.schedules);
  } else {
    rc::detail::printResultMessage(result, text);
  }
  verdict.failure = text.str();
  return verdict;
}

void expect_no_failure(const Effort& effort) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(effort.seed));
  std::fflush(stdout);  // a run that is killed must have said it
  const sync::TimePoint begin = sync::now();
  const Verdict verdict = check(effort);
  const double seconds = std::chrono::duration<double>(sync::now() - begin).count();
  const Tally& t = verdict.tally;
  std::printf("%llu programs of %llu steps, %llu schedules of %llu steps, %.1f s\n",
              static_cast<unsigned long long>(t.programs), static_cast<unsigned long long>(t.steps),
              static_cast<unsigned long long>(t.schedules),
              static_cast<unsigned long long>(t.simulated_steps), seconds);
  if (!verdict.failure.empty()) ADD_FAILURE() << verdict.failure;
}

TEST(RandomPrograms, compute_what_a_sequential_host_computes) {
  expect_no_failure({.programs = shortened(kPrograms)});
}

TEST(RandomPrograms, compute_what_a_sequential_host_computes_nightly) {
  expect_no_failure({.seed = std::random_device()(), .programs = kPrograms * kNightly});
}

void expect_no_failure_on(Family gpu, uint64_t seed = 1, int times = 1) {
  if (const std::string why = why_no(gpu); !why.empty()) GTEST_SKIP() << why;
  expect_no_failure(
      {.seed = seed, .programs = kGpuPrograms * times, .schedules = kGpuSchedules, .family = gpu});
}

TEST(RandomPrograms, compute_what_a_sequential_host_computes_on_vulkan) {
  expect_no_failure_on(Family::vulkan);
}

TEST(RandomPrograms, compute_what_a_sequential_host_computes_on_vulkan_nightly) {
  expect_no_failure_on(Family::vulkan, std::random_device()(), kNightly);
}

TEST(RandomPrograms, compute_what_a_sequential_host_computes_on_cuda) {
  expect_no_failure_on(Family::cuda);
}

TEST(RandomPrograms, compute_what_a_sequential_host_computes_on_cuda_nightly) {
  expect_no_failure_on(Family::cuda, std::random_device()(), kNightly);
}

// Programs in the same words that show one thing each. A counterexample is pasted here.
// HOLDFAST_ADVERSARY replays one schedule of one of them.

void expect_right(const Program& program) {
  const ScenarioBody body = [&](World& world) { run_program(world, program); };
  for (const World::Mode mode :
       {World::Mode::plain, World::Mode::validate, World::Mode::adversary}) {
    run_scenario(body, mode, Family::cpu);
  }
}

// Under one fault, at every opportunity up to `most`.
void expect_right_with(const Program& program, hal::FaultKind kind, uint64_t most) {
  expect_right(program);
  const uint64_t seeds = shortened(100);
  const simulation::Program run = simulated(program);
  for (uint64_t i = 0; i < seeds * most; ++i) {
    const simulation::Variant variant{
        1 + i / most, {}, {fmt::format("{}@{}", hal::to_string(kind), 1 + i % most)}};
    if (simulation::run_variant(run, variant).failure.empty()) continue;
    ADD_FAILURE() << simulation::to_string(simulation::shrink(run, variant));
    return;
  }
}

TEST(RandomPrograms, two_readbacks_share_a_list_that_is_refused) {
  const Program program{.host_visible = false,
                        .ops = {{.verb = Verb::readback, .value = 1},
                                {.verb = Verb::readback, .task = 1, .value = 2},
                                {.verb = Verb::readback, .task = 2, .value = 3}}};
  expect_right_with(program, hal::FaultKind::submit, 8);
  expect_right_with(program, hal::FaultKind::command, 8);
}

TEST(RandomPrograms, a_stream_goes_while_another_task_synchronizes_all) {
  expect_right({.streams = 2,
                .ops = {{.verb = Verb::fill},
                        {.verb = Verb::new_stream},
                        {.verb = Verb::fill, .task = 1, .stream = 1},
                        {.verb = Verb::synchronize_all, .task = 1, .stream = 1}}});
}

TEST(RandomPrograms, scratch_of_a_rollback_has_the_range_of_scratch_in_flight) {
  expect_right({.ops = {{.verb = Verb::transaction, .b = 1, .value = 3},
                        {.verb = Verb::flush},
                        {.verb = Verb::rollback},
                        {.verb = Verb::readback, .a = 1}}});
}

TEST(RandomPrograms, a_list_that_is_refused_vouches_for_no_earlier_writer) {
  const Program program{.queues = 2,
                        .streams = 2,
                        .ops = {{.verb = Verb::fill, .length = 7, .value = 1},
                                {.verb = Verb::flush},
                                {.verb = Verb::fill, .stream = 1, .value = 2},
                                {.verb = Verb::flush, .stream = 1},
                                {.verb = Verb::fill, .stream = 1, .value = 3},
                                {.verb = Verb::readback, .stream = 1, .length = 7}}};
  expect_right_with(program, hal::FaultKind::submit, 4);
}

TEST(RandomPrograms, a_program_keeps_what_it_binds_itself) {
  expect_right({.queues = 2,
                .streams = 2,
                .ops = {{.verb = Verb::upload, .length = 7, .value = 5},
                        {.verb = Verb::record_fixed},
                        {.verb = Verb::replay_fixed, .b = 1, .value = 1},
                        {.verb = Verb::drop},
                        {.verb = Verb::allocate, .stream = 1, .length = 1},
                        {.verb = Verb::fill, .stream = 1, .length = 7, .value = 9},
                        {.verb = Verb::replay_fixed, .stream = 1, .b = 1, .to = 1, .value = 2},
                        {.verb = Verb::readback, .a = 1, .length = 3}}});
}

TEST(RandomPrograms, a_range_is_read_on_one_queue_and_overwritten_from_another) {
  expect_right({.queues = 2,
                .streams = 2,
                .ops = {{.verb = Verb::upload, .length = 7, .value = 5},
                        {.verb = Verb::add, .b = 1, .length = 7, .value = 1},
                        {.verb = Verb::flush},
                        {.verb = Verb::fill, .stream = 1, .at = 2, .length = 3, .value = 7},
                        {.verb = Verb::flush, .stream = 1},
                        {.verb = Verb::affine, .stream = 1, .at = 3, .length = 2, .value = 3},
                        {.verb = Verb::readback, .a = 1, .length = 7}}});
}

TEST(RandomPrograms, an_array_goes_from_task_to_task_and_is_dropped_by_the_last) {
  expect_right({.queues = 2,
                .streams = 2,
                .tight = true,
                .ops = {{.verb = Verb::upload, .a = 5, .length = 7, .value = 5},
                        {.verb = Verb::affine, .task = 1, .stream = 1, .a = 5, .value = 1},
                        {.verb = Verb::add, .task = 2, .a = 5, .b = 0, .value = 2},
                        {.verb = Verb::drop_elsewhere, .task = 2, .a = 5},
                        {.verb = Verb::allocate, .stream = 1, .a = 5, .length = 1},
                        {.verb = Verb::fill, .stream = 1, .a = 5, .length = 7, .value = 9},
                        {.verb = Verb::readback, .task = 2, .a = 0}}});
}

TEST(RandomPrograms, what_failed_is_right_again_once_it_is_overwritten) {
  const Program program{.queues = 2,
                        .streams = 2,
                        .ops = {{.verb = Verb::affine, .length = 7, .value = 1},
                                {.verb = Verb::flush},
                                {.verb = Verb::readback, .length = 7},
                                {.verb = Verb::fill, .stream = 1, .length = 3, .value = 2},
                                {.verb = Verb::readback, .length = 3},
                                {.verb = Verb::map_write, .at = 4, .length = 3, .value = 3},
                                {.verb = Verb::readback, .length = 7}}};
  expect_right_with(program, hal::FaultKind::command, 4);
  expect_right_with(program, hal::FaultKind::submit, 4);
}

#ifdef HOLDFAST_ABLATIONS

std::string text_of(const Program& program) {
  std::ostringstream text;
  text << program;
  return text.str();
}

constexpr Effort kSearch{.programs = 400, .threads = false};

// Whether some program shows that a safety is missing, and how small it gets.
void expect_found(Ablation missing, size_t most_steps) {
  const ScopedAblation ablation(missing);
  const Verdict first = check(kSearch);
  ASSERT_TRUE(first.smallest) << ablation_token(missing) << " was not found";
  EXPECT_LE(step_count(*first.smallest), most_steps) << first.failure;
  const Verdict again = check(kSearch);
  ASSERT_TRUE(again.smallest);
  EXPECT_EQ(text_of(*first.smallest), text_of(*again.smallest));
}

// The control: what the others find is the ablation's doing.
TEST(RandomPrograms, nothing_is_found_where_no_safety_is_missing) {
  if (is_shortened()) GTEST_SKIP() << "a simulation, which is the same without a sanitizer";
  EXPECT_EQ(check(kSearch).failure, "");
}

TEST(RandomPrograms, a_binding_that_holds_nothing_is_found_and_made_small) {
  expect_found(Ablation::bound_not_held, 6);
}

constexpr unsigned number_of(Ablation ablation) { return static_cast<unsigned>(ablation); }

// By number: GoogleTest prints the parameter in the test's name.
class RandomProgramsWithout : public ::testing::TestWithParam<unsigned> {
 protected:
  static Ablation missing() { return static_cast<Ablation>(GetParam()); }
};

TEST_P(RandomProgramsWithout, the_safety_find_out_and_are_made_small) {
  expect_found(missing(), 16);
}

INSTANTIATE_TEST_SUITE_P(Ablations, RandomProgramsWithout,
                         ::testing::Values(number_of(Ablation::range_recycled_at_death),
                                           number_of(Ablation::donated_output_not_held),
                                           number_of(Ablation::temporaries_not_held),
                                           number_of(Ablation::destroyed_at_submit),
                                           number_of(Ablation::war_ignored),
                                           number_of(Ablation::hazards_by_view),
                                           number_of(Ablation::cross_queue_reuse_unordered),
                                           number_of(Ablation::host_access_not_ordered)),
                         [](const auto& test) {
                           std::string name(ablation_token(static_cast<Ablation>(test.param)));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

#endif

}  // namespace
}  // namespace holdfast::testing::random_programs
