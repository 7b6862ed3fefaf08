#pragma once

#include <fmt/format.h>

#include <optional>

#include "holdfast/array/scenarios/random_graphs_run_test.h"
#include "holdfast/base/sanitizers.h"

// Makes programs, runs each in every mode, and makes one that fails small.
namespace holdfast::random_graphs {

// How much of everything. The numbers keep the quick tests of one build within 15 seconds.
inline const uint64_t kPrograms = has_sanitizer() ? 15 : 60;
constexpr uint64_t kSchedules = 8;
constexpr uint64_t kLongest = 60;   // ops
constexpr uint64_t kNightly = 100;  // times as many programs
// With threads a program that can fail need not: how often it is tried.
constexpr int kTries = 5;

// How often each of these verbs is drawn.
struct Weight {
  unsigned weight;
  std::vector<Verb> verbs;
};
using Weights = std::vector<Weight>;

// Everything there is.
inline Weights all_verbs() {
  using enum Verb;
  return {{1, {arange, copy, squeeze, expand}},
          {2, {upload, full, external, compare, choose, broadcast, sparse}},
          {3, {number, reduce, matmul, concatenate, take, transpose, reshape, strided, native}},
          {4, {affine_as_it_lies, split, scratched}},
          {5, {slice}},
          {6, {binary, affine, pair, taken}},
          {8, {update, mix}},
          {3, {drop, drop_elsewhere, async_eval, read}},
          {4, {share, async_all}},
          {2, {eval, map, hold_map}},
          {1, {flush, wait_for, synchronize, synchronize_all, new_stream}},
          {1, {clear_cache, cache_limit, clear_kernels, kernel_limits, submit_limits}}};
}

// What shows lives and order best, with few kernels to compile.
inline Weights kernels_and_handles() {
  using enum Verb;
  return {{1, {external, transpose, eval, map, hold_map, synchronize, new_stream}},
          {2, {upload, full, drop_elsewhere, clear_cache, clear_kernels}},
          {3, {split, scratched, share, async_eval, read}},
          {4, {slice, pair, drop}},
          {5, {update, async_all}},
          {6, {affine, mix, taken}}};
}

inline Program any_program(uint64_t seed, const Weights& weights) {
  Random random(seed);
  for (int i = 0; i < 3; ++i) (void)random.next();
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random.below(n)); };
  Program program;
  program.queues = 1 + below(3);
  program.streams = 1 + below(3);
  program.host_visible = !random.one_in(4) && testing::family_of_bodies() == testing::Family::cpu;
  program.tight = random.one_in(3);
  program.reaper = random.one_in(4);
  program.commands = std::array{1U, 4U, 64U, 64U}[below(4)];
  program.seed = seed * 1000 + 1;
  // In every other program tasks have most in common.
  const bool sociable = random.one_in(2);
  const auto choice = [&] {
    return sociable && !random.one_in(3) ? kOwnSlots + below(kSharedSlots) : below(kChoices);
  };
  std::vector<Verb> drawn_from;
  for (const Weight& w : weights) {
    for (unsigned i = 0; i < w.weight; ++i) {
      drawn_from.insert(drawn_from.end(), w.verbs.begin(), w.verbs.end());
    }
  }
  for (uint64_t n = 3 + random.below(kLongest - 2); n > 0; --n) {
    Op op;
    op.verb = drawn_from[random.below(drawn_from.size())];
    // Mostly an Op goes on with what the one before it had or made.
    const Op before = program.ops.empty() ? op : program.ops.back();
    op.task = random.one_in(3) ? below(kTasks) : before.task;
    op.stream = below(program.streams);
    op.a = std::array{choice(), before.a, before.c}[below(3)];
    op.b = std::array{choice(), choice(), before.c}[below(3)];
    op.c = choice();
    op.gives_up = random.one_in(2);
    op.detail = random.below(1'000'000);
    program.ops.push_back(op);
  }
  return program;
}

// What was done in all.
struct Tally {
  uint64_t programs = 0;
  uint64_t steps = 0;
  uint64_t schedules = 0;
  uint64_t simulated_steps = 0;
  uint64_t contended = 0;  // schedules in which a task waited for one that records what it needs
  // Of the runs with threads.
  uint64_t nodes = 0;
  uint64_t donated = 0;
  uint64_t copies = 0;
  uint64_t evictions = 0;  // of kernels
  uint64_t early_submits = 0;

  void add(const Stats& stats) {
    nodes += stats.nodes_recorded;
    donated += stats.donated;
    copies += stats.hidden_copies;
    evictions += stats.kernels.evictions;
    early_submits += stats.early_submits;
  }
};

// What is wrong with how a program runs; empty: nothing.
inline std::string fault_with_threads(const Program& program, World::Mode mode, Tally& tally) {
  World world(mode);
  world.run([&] { tally.add(run_program(world, program)); });
  const std::string failure = world.failure();
  if (failure.empty()) return {};
  return fmt::format("{}: {}", mode == World::Mode::plain ? "with threads" : "under validate",
                     failure);
}

// What goes wrong under a seed: nothing for every other one, else one thing or two.
inline std::vector<std::string> faults_of(uint64_t seed) {
  std::vector<std::string> faults;
  if (seed % 2 == 1) return faults;
  Random random(seed ^ 0x6661756C74ULL);
  for (uint64_t n = 1 + random.below(2); n > 0; --n) {
    const auto kind = static_cast<hal::FaultKind>(random.below(hal::kFaultKinds));
    uint64_t opportunities = 500;  // steps
    if (kind == hal::FaultKind::alloc || kind == hal::FaultKind::compile) opportunities = 4;
    if (kind == hal::FaultKind::submit) opportunities = 20;
    if (kind == hal::FaultKind::command) opportunities = 40;
    if (kind == hal::FaultKind::lost) opportunities = 60;
    faults.push_back(fmt::format("{}@{}", hal::to_string(kind), 1 + random.below(opportunities)));
  }
  return faults;
}

inline simulation::Program simulated(const Program& program, Tally* tally = nullptr) {
  return testing::as_program([program, tally](World& world) {
    const Stats stats = run_program(world, program);
    const auto contended = stats.runtime.waits_for(runtime::WaitReason::recording);
    if (tally != nullptr && contended.count > 0) ++tally->contended;
  });
}

inline std::string fault_in_simulation(const Program& program, uint64_t schedules, Tally& tally) {
  const simulation::Program run = simulated(program, &tally);
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
  uint64_t programs = kPrograms;
  uint64_t schedules = kSchedules;
  bool threads = true;
  Weights weights = all_verbs();
  bool compiles = false;
  int shrinks = 400;  // that are tried
};

inline std::string fault_of(const Program& program, const Effort& effort, Tally& tally) {
  std::string failure;
  if (effort.threads) failure = fault_with_threads(program, World::Mode::plain, tally);
  if (effort.threads && failure.empty()) {
    failure = fault_with_threads(program, World::Mode::validate, tally);
  }
  return failure.empty() ? fault_in_simulation(program, effort.schedules, tally) : failure;
}

// Leaves out Ops as long as the program still fails, then makes what is left plainer.
class Shrinker {
 public:
  Shrinker(Program program, std::string failure, const Effort& effort)
      : smallest_(std::move(program)), failure_(std::move(failure)), effort_(effort) {
    // A smaller program has fewer schedules that fail, and they are cheap.
    in_simulation_ = failure_.find("replay: ") != std::string::npos;
    effort_.threads = !in_simulation_;
    effort_.schedules = in_simulation_ ? effort.schedules * 8 : 0;
  }

  void run() {
    for (size_t part = smallest_.ops.size() / 2; part > 0; part /= 2) leave_out(part);
    for (bool again = true; again;) again = leave_out(1);
    for (size_t i = 0; i < smallest_.ops.size(); ++i) {
      for (unsigned Op::*number : {&Op::task, &Op::stream, &Op::a, &Op::b, &Op::c}) {
        if (smallest_.ops[i].*number == 0) continue;
        Program plainer = smallest_;
        plainer.ops[i].*number = 0;
        (void)try_with(std::move(plainer));
      }
    }
    while (leave_out(1)) {
    }
  }
  const Program& smallest() const { return smallest_; }
  const std::string& failure() const { return failure_; }
  // The schedule that makes it fail, made as short as it gets.
  std::string explain() const {
    const simulation::Program program = simulated(smallest_);
    for (uint64_t i = 0; i < effort_.schedules; ++i) {
      const uint64_t seed = smallest_.seed + i;
      const simulation::Variant variant{seed, {}, faults_of(seed)};
      if (simulation::run_variant(program, variant).failure.empty()) continue;
      return simulation::to_string(simulation::shrink(program, variant));
    }
    return {};
  }

 private:
  bool leave_out(size_t part) {
    bool any = false;
    for (size_t at = 0; at < smallest_.ops.size();) {
      Program shorter = smallest_;
      const auto begin = shorter.ops.begin() + static_cast<std::ptrdiff_t>(at);
      const size_t count = std::min(part, smallest_.ops.size() - at);
      shorter.ops.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
      if (try_with(std::move(shorter))) {
        any = true;
      } else {
        at += part;
      }
    }
    return any;
  }
  bool try_with(Program program) {
    for (int i = 0; i < (in_simulation_ ? 1 : kTries); ++i) {
      if (++tried_ > effort_.shrinks) return false;
      Tally tally;
      std::string failure = fault_of(program, effort_, tally);
      if (failure.empty()) continue;
      smallest_ = std::move(program);
      failure_ = std::move(failure);
      return true;
    }
    return false;
  }

  Program smallest_;
  std::string failure_;
  Effort effort_;
  bool in_simulation_ = false;
  int tried_ = 0;
};

struct Verdict {
  Tally tally;
  // Of the smallest program that fails: all there is to say. Empty: none does.
  std::string failure;
  std::optional<Program> smallest;
};

inline size_t step_count(const Program& program) { return Model(program).run().steps.size(); }

inline Verdict check(const Effort& effort) {
  Verdict verdict;
  for (uint64_t i = 0; i < effort.programs; ++i) {
    const uint64_t seed = effort.seed + i;
    Program program = any_program(seed, effort.weights);
    program.compiles = effort.compiles;
    ++verdict.tally.programs;
    verdict.tally.steps += step_count(program);
    const std::string failure = fault_of(program, effort, verdict.tally);
    if (failure.empty()) continue;
    Shrinker shrinker(program, failure, effort);
    shrinker.run();
    verdict.smallest = shrinker.smallest();
    verdict.failure = fmt::format("seed {}: {}\nsmallest:\n{}{}\n", seed, failure,
                                  source_of(*verdict.smallest), shrinker.failure());
    const Plan plan = Model(*verdict.smallest).run();
    for (size_t n = 0; n < plan.steps.size(); ++n) {
      verdict.failure += fmt::format("  {:>3}  {}\n", n, to_string(plan.steps[n]));
    }
    verdict.failure += shrinker.explain();
    break;
  }
  return verdict;
}

}  // namespace holdfast::random_graphs
