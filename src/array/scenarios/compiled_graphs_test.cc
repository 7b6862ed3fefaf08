// Random graphs as one compiled function each: its arguments and its state are what the graph
// uploads, its results all arrays that are left at the end.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "holdfast/array/scenarios/random_graphs_search_test.h"
#include "holdfast/base/env.h"
#include "holdfast/compile.h"
#include "holdfast/testing/effort.h"

namespace holdfast::random_graphs {
namespace {

bool is_upload(const Step& step) {
  return step.verb == Verb::upload || step.verb == Verb::external;
}

// What makes nodes and views, and nothing else; and handles that come and go.
Weights graph_verbs() {
  using enum Verb;
  return {{1, {arange, copy, squeeze, expand, full}},
          {2, {upload, compare, choose, broadcast, sparse}},
          {3, {number, reduce, matmul, concatenate, take, transpose, reshape, strided}},
          {4, {affine_as_it_lies, split, scratched, slice, drop, share}},
          {6, {binary, affine, pair, taken, update, mix}}};
}

// The same with few kernels to compile.
Weights few_graph_verbs() {
  using enum Verb;
  return {{1, {full, transpose, share}},
          {2, {upload, drop, number}},
          {4, {slice, split, scratched, pair}},
          {6, {affine, taken, update, mix}}};
}

// What becomes one kernel with its neighbours, and what comes between.
Weights elementwise_verbs() {
  using enum Verb;
  return {{1, {slice, transpose, drop, update, strided}},
          {2, {upload, broadcast, expand, reduce, share}},
          {6, {binary, number, compare, choose}}};
}

class CompiledGraph {
 public:
  CompiledGraph(World& world, const Program& program) : world_(world), plan_(Model(program).run()) {
    for (const Step& step : plan_.steps) {
      if (is_upload(step)) uploads_.push_back(&step);
    }
    state_.resize(uploads_.size() / 3);
  }

  void run() {
    std::vector<Array*> variables;
    for (Array& variable : state_) variables.push_back(&variable);
    const auto f = compile([this](const std::vector<Array>& given) { return graph(given); },
                           {.state = variables});
    std::vector<std::vector<Array>> results;
    std::vector<std::vector<Array>> states;
    // Several in flight at once, some with state that others see.
    for (size_t round = 0; round < 3; ++round) {
      std::vector<Array> given;
      for (size_t i = 0; i < uploads_.size(); ++i) {
        (i < state_.size() ? state_[i] : given.emplace_back()) = uploaded(*uploads_[i]);
      }
      const std::vector<Array> kept(round == 1 ? state_ : std::vector<Array>());
      results.push_back(f(given));
      // The variables stay where they are.
      for (std::vector<Array>& taken = states.emplace_back(); Array & variable : state_) {
        taken.push_back(std::exchange(variable, {}));
      }
      for (const Array& array : results.back()) async_eval(array);
      for (size_t i = 0; i < kept.size(); ++i) expect(kept[i], uploads_[i]->shows[0], "old state");
    }
    for (size_t round = 0; round < results.size(); ++round) {
      for (size_t i = 0; i < results[round].size(); ++i) {
        expect(results[round][i], expected_[i], fmt::format("round {}, result {}", round, i));
      }
      for (size_t i = 0; i < states[round].size(); ++i) {
        if (expected_.empty()) break;
        expect(states[round][i], expected_[i % expected_.size()],
               fmt::format("round {}, state {}", round, i));
      }
    }
  }

 private:
  std::vector<Array> graph(const std::vector<Array>& given) {
    std::vector<Array> handles(plan_.handles);
    std::vector<const Eager*> shows(plan_.handles);
    size_t next = 0;
    for (const Step& step : plan_.steps) {
      std::vector<Array> in;
      for (const Step::In& from : step.in) {
        in.push_back(from.moved ? std::exchange(handles[from.handle], {}) : handles[from.handle]);
      }
      if (!step.out.empty()) {
        std::vector<Array> made;
        if (is_upload(step)) {
          made.push_back(next < state_.size() ? state_[next] : given[next - state_.size()]);
          ++next;
        } else {
          made = build_step(step, std::move(in));
        }
        for (size_t i = 0; i < step.out.size(); ++i) {
          handles[step.out[i]] = std::move(made[i]);
          shows[step.out[i]] = &step.shows[i];
        }
      }
      for (const unsigned handle : step.drops) handles[handle] = {};
    }
    expected_.clear();
    std::vector<Array> left;
    for (size_t i = 0; i < handles.size(); ++i) {
      if (!handles[i].has_value()) continue;
      expected_.push_back(*shows[i]);
      left.push_back(std::move(handles[i]));
    }
    for (size_t i = 0; i < state_.size() && !left.empty(); ++i) state_[i] = left[i % left.size()];
    return left;
  }

  static Array uploaded(const Step& step) {
    const Eager& shows = step.shows[0];
    if (shows.dtype == int32) {
      std::vector<int32_t> values;
      for (size_t i = 0; i < shows.size(); ++i) values.push_back(static_cast<int32_t>(shows[i]));
      return Array(values, shows.shape);
    }
    std::vector<float> values;
    for (size_t i = 0; i < shows.size(); ++i) values.push_back(static_cast<float>(shows[i]));
    return Array(values, shows.shape);
  }

  void expect(const Array& array, const Eager& shows, const std::string& what) {
    const Array as_floats = astype(array, float32);
    const std::vector<float> values = as_floats.to_vector<float>();
    if (array.shape() != shows.shape || array.dtype() != shows.dtype) {
      return world_.fail(fmt::format("{} has shape {} and should have {}", what,
                                     holdfast::to_string(array.shape()),
                                     holdfast::to_string(shows.shape)));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (static_cast<double>(values[i]) == shows[i]) continue;
      return world_.fail(
          fmt::format("{}: element {} is {} and should be {}", what, i, values[i], shows[i]));
    }
  }

  World& world_;
  const Plan plan_;
  std::vector<const Step*> uploads_;
  std::vector<Array> state_;
  std::vector<Eager> expected_;
};

void run_compiled(World& world, const Program& program) {
  ArrayRigOptions options;
  options.device = {.queues = program.queues, .helpers = 0};
  if (program.tight) {
    options.runtime.deferred_limit = 1_KiB;
    options.runtime.deferred_objects = 4;
    options.runtime.max_in_flight = 2;
  }
  const ArrayRig rig(world, options);
  CompiledGraph(world, program).run();
  if (!world.has_faults() && rig.stats().calls_not_compiled > 0) world.fail("it was not compiled");
}

void expect_graphs(uint64_t seed, uint64_t programs, uint64_t schedules, const Weights& weights) {
  for (uint64_t i = 0; i < programs; ++i) {
    const Program program = any_program(seed + i, weights);
    SCOPED_TRACE(fmt::format("seed {}", seed + i));
    for (const World::Mode mode : {World::Mode::plain, World::Mode::validate}) {
      World world(mode);
      world.run([&] { run_compiled(world, program); });
      ASSERT_EQ(world.failure(), "");
    }
    const simulation::Program simulated =
        testing::as_program([&](World& world) { run_compiled(world, program); });
    for (uint64_t schedule = 0; schedule < schedules; ++schedule) {
      const simulation::Variant variant{
          program.seed + schedule, {}, faults_of(program.seed + schedule)};
      ASSERT_EQ(simulation::run_variant(simulated, variant).failure, "")
          << simulation::replay_line(variant);
    }
  }
}

TEST(CompiledGraphs, show_what_an_eager_host_computes) {
  expect_graphs(1, testing::shortened(uint64_t{10}), 2, few_graph_verbs());
}

TEST(CompiledGraphs, of_elementwise_operations_show_what_an_eager_host_computes) {
  expect_graphs(1, testing::shortened(uint64_t{10}), 2, elementwise_verbs());
}

TEST(CompiledGraphs, of_elementwise_operations_show_what_an_eager_host_computes_nightly) {
  expect_graphs(std::random_device()(), env::number("HOLDFAST_SCHEDULES").value_or(300), 4,
                elementwise_verbs());
}

TEST(CompiledGraphs, show_what_an_eager_host_computes_nightly) {
  expect_graphs(std::random_device()(), env::number("HOLDFAST_SCHEDULES").value_or(1000), 8,
                graph_verbs());
}

// Every node is a compiled function, among all else that random programs do.
TEST(CompiledGraphs, of_one_node_show_what_an_eager_host_computes) {
  const Verdict verdict = check({.programs = testing::shortened(uint64_t{10}),
                                 .schedules = 2,
                                 .weights = kernels_and_handles(),
                                 .compiles = true});
  EXPECT_EQ(verdict.failure, "");
}

TEST(CompiledGraphs, of_one_node_show_what_an_eager_host_computes_nightly) {
  const Verdict verdict =
      check({.seed = std::random_device()(), .programs = kPrograms * 20, .compiles = true});
  EXPECT_EQ(verdict.failure, "");
}

}  // namespace
}  // namespace holdfast::random_graphs
