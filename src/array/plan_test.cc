#include "holdfast/array/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>

#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast::array {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Node* node_of(const Array& array) { return &array.value()->node(); }

std::vector<Node*> nodes_of(Plan& plan) {
  std::vector<Node*> nodes;
  for (const Plan::Step& step : plan.steps()) nodes.push_back(step.node.get());
  return nodes;
}

// Each after its inputs, where those are steps at all, and in a later wave.
void expect_ordered(Plan& plan) {
  std::map<const Node*, uint32_t> waves;
  for (const Plan::Step& step : plan.steps()) {
    const Node::Pin pin(*step.node);
    ASSERT_TRUE(pin);
    for (const Array& input : step.node->inputs()) {
      const auto found = waves.find(node_of(input));
      if (input.is_recorded()) continue;
      ASSERT_NE(found, waves.end()) << "before its input";
      ASSERT_LT(found->second, step.wave);
    }
    EXPECT_TRUE(waves.emplace(step.node.get(), step.wave).second) << "twice";
  }
}

TEST(Plan, has_each_node_once_after_its_inputs_and_none_that_is_over) {
  const Array done = full({4}, 1.0);
  done.eval();
  const Array a = done + 1.0F;
  const Array b = a * a;
  const Array c = b + transpose(a);
  const std::vector<Array> roots{c, a, c};
  Plan plan(roots);
  EXPECT_THAT(nodes_of(plan), ElementsAre(node_of(a), node_of(b), node_of(c)));
  expect_ordered(plan);
  Plan of_nothing(std::vector<Array>{done, Array()});
  EXPECT_THAT(of_nothing.steps(), IsEmpty());
}

TEST(Plan, puts_independent_nodes_into_one_wave_and_those_that_take_last) {
  const Array x = full({4}, 1.0);
  x.eval();
  const Array taker = slice_update(x, Array(std::vector<float>{2}), {{.stop = 1}});
  const Array first = x + 1.0F;
  const Array second = x + 2.0F;
  const Array sum = first + second;
  Plan plan(std::vector<Array>{taker, sum});
  ASSERT_THAT(plan.steps(), SizeIs(4));
  EXPECT_THAT(nodes_of(plan),
              ElementsAre(node_of(first), node_of(second), node_of(taker), node_of(sum)));
  EXPECT_EQ(plan.steps()[0].wave, plan.steps()[2].wave);
  EXPECT_TRUE(plan.steps()[2].takes);
  EXPECT_FALSE(plan.steps()[1].takes);
}

TEST(Plan, goes_back_to_depth_first_order) {
  const Array w = full({4}, 1.0);
  w.eval();
  Array x = w + 0.0F;
  std::vector<Node*> expected{node_of(x)};
  for (int i = 0; i < 20; ++i) {
    const Array branch = w * static_cast<float>(i);
    const Array half = exp(branch);
    x = x + half;
    for (const Array& a : {branch, half, x}) expected.push_back(node_of(a));
  }
  Plan plan(std::vector<Array>{x});
  EXPECT_NE(nodes_of(plan), expected) << "waves first";
  Plan::sort_depth_first(plan.steps());
  EXPECT_EQ(nodes_of(plan), expected);
}

TEST(Plan, counts_waves_on_from_window_to_window) {
  const Array w = full({1}, 1.0);
  w.eval();
  std::vector<Array> roots;
  for (size_t i = 0; i < Plan::kWindow + 10; ++i) roots.push_back((w + 1.0F) * 2.0F);
  Plan plan(roots);
  const std::span<Plan::Step> steps = plan.steps();
  ASSERT_THAT(steps, SizeIs(2 * roots.size()));
  expect_ordered(plan);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_LT(steps[i].place, Plan::kWindow);
    if (i == 0) continue;
    EXPECT_GE(steps[i].wave, steps[i - 1].wave);
    if (i % Plan::kWindow == 0) {
      EXPECT_GT(steps[i].wave, steps[i - 1].wave) << "a new window";
    }
  }
  // Window by window, depth-first order is that of the roots.
  for (size_t i = 0; i < steps.size(); i += Plan::kWindow) {
    Plan::sort_depth_first(steps.subspan(i, std::min(Plan::kWindow, steps.size() - i)));
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    EXPECT_EQ(steps[2 * i + 1].node.get(), node_of(roots[i]));
  }
}

// More plans at a time than there are places for marks, and one that walks what another is walking.
TEST(Plan, does_not_mind_other_plans) {
  const Array w = full({1}, 1.0);
  w.eval();
  const Array a = w + 1.0F;
  const Array b = a * 2.0F;
  const Array c = a + b;
  const std::vector<Node*> expected{node_of(a), node_of(b), node_of(c)};
  class Walks final : public Operation {
   public:
    explicit Walks(std::function<void()> walk) : walk_(std::move(walk)) {}
    std::string_view name() const noexcept override { return "walks"; }
    bool takes_inputs() const noexcept override { return walk_(), false; }
    void record(Encoder&) const override {}

   private:
    std::function<void()> walk_;
  };
  // A plan asks a node whether it takes inputs while it walks: that is where others walk too.
  int depth = 0;
  std::vector<std::vector<Node*>> inner;
  Array nested;
  const std::function<void()> walk = [&] {
    if (depth >= 70) return;
    ++depth;
    Plan plan(std::vector<Array>{nested});
    inner.push_back(nodes_of(plan));
    --depth;
  };
  const std::vector<Array> inputs{c};
  nested = apply(make_ref<const Walks>(walk), inputs, OutputType{{1}, float32});
  Plan plan(std::vector<Array>{nested});
  ASSERT_EQ(inner.size(), 70U);
  std::vector<Node*> with_nested = expected;
  with_nested.push_back(node_of(nested));
  EXPECT_EQ(nodes_of(plan), with_nested);
  for (const std::vector<Node*>& nodes : inner) EXPECT_EQ(nodes, with_nested);
  expect_ordered(plan);
}

}  // namespace
}  // namespace holdfast::array
