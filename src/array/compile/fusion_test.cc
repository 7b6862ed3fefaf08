#include "holdfast/array/compile/fusion.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "holdfast/array/compile/argument.h"
#include "holdfast/array/compile/fused_operation.h"
#include "holdfast/compile.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/kernel.h"
#include "holdfast/ops.h"
#include "holdfast/sorting.h"
#include "holdfast/views.h"

namespace holdfast::array {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Arrays = std::vector<Array>;

Array matrix(const Shape& shape = {4, 32}, Dtype dtype = float32) { return zeros(shape, dtype); }

// What becomes of a function; nothing runs.
struct FusionOf {
  FusionOf(const Arrays& arguments, const std::function<Arrays(const Arrays&)>& f) {
    Arrays placeholders;
    for (const Array& argument : arguments) {
      placeholders.push_back(make_placeholder(ArgumentType(argument), "an argument", {}));
    }
    const Trace before(placeholders, f(placeholders));
    nodes_before = before.steps.size();
    Fused fused = fuse(before);
    kernels = fused.kernels;
    operations = fused.operations;
    notes = std::move(fused.notes);
    const Trace after(std::move(placeholders), std::move(fused.results));
    for (const Trace::Step& step : after.steps) {
      names.emplace_back(step.node->operation().name());
      outputs.push_back(step.node->outputs());
      inputs.push_back(step.node->inputs().size());
    }
    results = after.results;
  }

  size_t nodes_before = 0;
  size_t kernels = 0;
  size_t operations = 0;
  std::vector<std::string> notes{};
  std::vector<std::string> names{};  // of the nodes that are left, in order
  std::vector<size_t> outputs{};
  std::vector<size_t> inputs{};
  Arrays results{};
};

TEST(Fusion, a_chain_of_elementwise_operations_becomes_one_node) {
  const FusionOf f({matrix()},
                   [](const Arrays& x) { return Arrays{tanh(exp(x[0] * 2.0F) + 1.0F)}; });
  EXPECT_EQ(f.nodes_before, 4U);
  EXPECT_THAT(f.names, ElementsAre("fused_multiply_exp_add_tanh"));
  EXPECT_EQ(f.kernels, 1U);
  EXPECT_EQ(f.operations, 4U);
  EXPECT_THAT(f.notes, ElementsAre("'fused_multiply_exp_add_tanh' does the work of 4 operations on "
                                   "shape (4, 32): multiply, exp, add, tanh"));
}

TEST(Fusion, a_tree_with_casts_broadcasts_and_where_becomes_one_node) {
  const FusionOf f({matrix(), matrix({32}, float16), matrix({4, 1})}, [](const Arrays& x) {
    const Array a = x[0] + astype(broadcast_to(x[1], {4, 32}), float32);
    return Arrays{astype(where(a > x[2], exp(a), x[2] * a), bfloat16)};
  });
  EXPECT_THAT(f.names, ElementsAre(HasSubstr("fused_")));
  EXPECT_THAT(f.inputs, ElementsAre(3));
  EXPECT_THAT(f.outputs, ElementsAre(1));
}

TEST(Fusion, what_others_need_is_a_result_of_the_node_and_nothing_else_is) {
  const FusionOf f({matrix()}, [](const Arrays& x) {
    const Array a = x[0] + 1.0F;
    const Array b = a * 2.0F;
    return Arrays{exp(b), matmul(a, transpose(a))};
  });
  EXPECT_THAT(f.names, ElementsAre("fused_add_multiply_exp", "matmul"));
  EXPECT_THAT(f.outputs, ElementsAre(2, 1)) << "a and exp(b)";
}

TEST(Fusion, branches_of_one_input_share_a_node_only_if_one_uses_the_other) {
  const FusionOf f({matrix()}, [](const Arrays& x) { return Arrays{x[0] + 1.0F, x[0] * 2.0F}; });
  EXPECT_EQ(f.kernels, 0U);
  const FusionOf g({matrix()},
                   [](const Arrays& x) { return Arrays{(x[0] + 1.0F) * (x[0] * 2.0F)}; });
  EXPECT_EQ(g.operations, 3U);
}

TEST(Fusion, a_group_leaves_out_what_needs_it_through_another_node) {
  // The last sum needs `a` both directly and through a product outside: as one node with `a` it
  // would wait for itself.
  const FusionOf f({matrix({32, 32})}, [](const Arrays& x) {
    const Array a = exp(x[0] + 1.0F);
    return Arrays{(a + matmul(a, a)) * 2.0F};
  });
  EXPECT_THAT(f.names, ElementsAre("fused_add_exp", "matmul", "fused_add_multiply"));
}

TEST(Fusion, results_keep_their_names_and_types) {
  const FusionOf f({matrix({4, 32}, float16)}, [](const Arrays& x) {
    Array y = exp(x[0] + 1.0F) * 0.5F;
    y.set_name("the answer");
    return Arrays{y, transpose(y), slice(y, {{.start = 1}})};
  });
  ASSERT_EQ(f.results.size(), 3U);
  EXPECT_EQ(f.results[0].name(), "the answer");
  EXPECT_EQ(f.results[0].dtype(), float16);
  EXPECT_EQ(f.results[0].shape(), (Shape{4, 32}));
  EXPECT_EQ(f.results[1].shape(), (Shape{32, 4}));
  EXPECT_EQ(f.results[2].shape(), (Shape{3, 32}));
  EXPECT_EQ(f.results[2].value(), f.results[0].value());
}

TEST(Fusion, a_reduction_takes_the_work_before_it) {
  for (const auto reduce : {sum, mean, prod, max, min}) {
    const FusionOf f({matrix()}, [&](const Arrays& x) {
      return Arrays{reduce(square(x[0] + 1.0F), {.axes = {1}}, {})};
    });
    EXPECT_EQ(f.names.size(), 1U) << f.names.front();
    EXPECT_EQ(f.operations, 3U);
  }
}

TEST(Fusion, a_norm_is_one_node_with_the_work_after_it) {
  const FusionOf f({matrix(), matrix({32}), matrix()}, [](const Arrays& x) {
    const Array a = x[0] + x[2];
    const Array scale = rsqrt(mean(square(a), {.axes = {-1}, .keep_dims = true}) + 1e-5F);
    return Arrays{a, a * scale * x[1]};
  });
  EXPECT_EQ(f.names.size(), 1U);
  EXPECT_EQ(f.operations, 7U);
  EXPECT_THAT(f.outputs, ElementsAre(2));
}

TEST(Fusion, a_softmax_is_one_node_with_the_work_around_it) {
  const FusionOf f({matrix(), matrix()}, [](const Arrays& x) {
    return Arrays{log(softmax(where(x[1] > 0.0F, x[0] * 0.125F, -1e9F)) + 1e-9F)};
  });
  EXPECT_EQ(f.names.size(), 1U);
  EXPECT_EQ(f.operations, 6U);
}

TEST(Fusion, softmax_written_by_hand_is_one_node) {
  const FusionOf f({matrix()}, [](const Arrays& x) {
    const Array powers = exp(x[0] - max(x[0], {.axes = {1}, .keep_dims = true}));
    return Arrays{powers / sum(powers, {.axes = {1}, .keep_dims = true})};
  });
  EXPECT_EQ(f.names.size(), 1U);
  EXPECT_EQ(f.operations, 5U);
}

TEST(Fusion, reductions_that_are_no_rows_of_floats_stay_alone_and_say_why) {
  const auto note_of = [](const Array& x, const std::function<Array(const Array&)>& f) {
    const FusionOf fused({x}, [&](const Arrays& given) { return Arrays{f(given[0] + given[0])}; });
    EXPECT_EQ(fused.kernels, 0U);
    return fused.notes.empty() ? std::string() : fused.notes[0];
  };
  EXPECT_THAT(note_of(matrix(), [](const Array& x) { return sum(x, {.axes = {0}}); }),
              HasSubstr("stays alone: it reduces another axis than the last"));
  EXPECT_THAT(note_of(matrix(), [](const Array& x) { return softmax(x, 0); }),
              HasSubstr("stays alone: it is along another axis than the last"));
  EXPECT_THAT(note_of(matrix({4, 32}, int32), [](const Array& x) { return sum(x, {.axes = {1}}); }),
              HasSubstr("stays alone: it is no reduction of floats"));
  EXPECT_THAT(note_of(matrix(), [](const Array& x) { return all(x, {.axes = {1}}); }),
              HasSubstr("stays alone: it is no reduction of floats"));
  EXPECT_THAT(note_of(matrix({4, 1}), [](const Array& x) { return sum(x, {.axes = {1}}); }),
              HasSubstr("stays alone: its rows have one element at most"));
  EXPECT_THAT(
      note_of(matrix({2, 40'000}), [](const Array& x) { return sum(x, {.axes = {1}}); }),
      HasSubstr("stays alone: it has 2 rows of 40000 elements, which are worked on in pieces"));
}

TEST(Fusion, other_nodes_stay_as_they_are) {
  const Kernel twice({.name = "twice",
                      .inputs = {"x"},
                      .outputs = {"y"},
                      .source = "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];"});
  const FusionOf f({matrix()}, [&](const Arrays& x) {
    const Array a = exp(x[0] + 1.0F);
    const Array b = twice({a}, {.grid = {128, 1, 1},
                                .threadgroup = {32, 1, 1},
                                .output_shapes = {a.shape()},
                                .output_dtypes = {float32}})[0];
    return Arrays{sort(log(b * b))};
  });
  EXPECT_THAT(f.names, ElementsAre("fused_add_exp", "twice", "fused_multiply_log", "sort"));
}

TEST(Fusion, elements_that_are_turned_are_read_by_an_operation_of_their_own) {
  const FusionOf f({matrix({32, 32})},
                   [](const Arrays& x) { return Arrays{exp(transpose(x[0]) + x[0])}; });
  EXPECT_THAT(f.names, ElementsAre("add", "exp"));
  const FusionOf g({matrix({32, 32})},
                   [](const Arrays& x) { return Arrays{exp(transpose(exp(x[0]) + 1.0F))}; });
  EXPECT_THAT(g.names, ElementsAre("fused_exp_add", "exp")) << "a group ends where it is turned";
}

TEST(Fusion, groups_stay_within_what_a_kernel_can_be_given) {
  const FusionOf chain({matrix()}, [](const Arrays& x) {
    Array y = x[0];
    for (int i = 0; i < 200; ++i) y = y + 1.0F;
    return Arrays{y};
  });
  EXPECT_EQ(chain.operations, 200U);
  EXPECT_EQ(chain.kernels, (200 + kMaxFusedSteps - 1) / kMaxFusedSteps);

  const Arrays many(100, matrix());
  const FusionOf sum_of_many(many, [](const Arrays& x) {
    Array y = x[0];
    for (size_t i = 1; i < x.size(); ++i) y = y + x[i];
    return Arrays{y};
  });
  EXPECT_EQ(sum_of_many.operations, 99U);
  for (size_t i = 0; i < sum_of_many.inputs.size(); ++i) {
    EXPECT_LE(sum_of_many.inputs[i] + sum_of_many.outputs[i], kMaxFusedArguments);
  }
}

TEST(Fusion, arrays_without_elements_and_single_operations_are_left_alone) {
  EXPECT_EQ(
      FusionOf({matrix({0, 4})}, [](const Arrays& x) { return Arrays{exp(x[0] + 1.0F)}; }).kernels,
      0U);
  EXPECT_EQ(FusionOf({matrix()}, [](const Arrays& x) { return Arrays{exp(x[0])}; }).kernels, 0U);
  EXPECT_EQ(FusionOf({matrix()}, [](const Arrays& x) { return x; }).kernels, 0U);
}

TEST(Fusion, constants_are_inputs) {
  const Array weight = ones({32}, float32);
  const FusionOf f({matrix()},
                   [&](const Arrays& x) { return Arrays{exp(x[0] * (weight + 1.0F)) + 1.0F}; });
  EXPECT_THAT(f.names, ElementsAre("fused_multiply_exp_add"));
  EXPECT_THAT(f.inputs, ElementsAre(2));
}

TEST(Fusion, a_long_graph_with_many_ways_is_fused_to_its_end) {
  const FusionOf f({matrix({32, 32})}, [](const Arrays& x) {
    Array y = x[0];
    for (int i = 0; i < 3000; ++i) y = exp(y) + (i % 3 == 0 ? matmul(y, y) : y * 2.0F);
    return Arrays{y};
  });
  EXPECT_EQ(f.kernels, 1000U);
  EXPECT_EQ(f.operations, 8000U);
}

// --- what it does for a user
// ----------------------------------------------------------------------

class FusionOfCalls : public ::testing::Test {
 protected:
  // Of f on a device with nothing else to do; twice, so that the second one is a replay.
  std::vector<std::string> kernels_of(const std::function<Array()>& f) const {
    eval(f());
    device_.synchronize();
    device_.set_profiling(true);
    eval(f());
    device_.synchronize();
    std::vector<std::string> names;
    for (const KernelTime& time : device_.kernel_times()) {
      names.insert(names.end(), time.dispatches, time.kernel);
    }
    device_.set_profiling(false);
    return names;
  }

  Device device_ = open_device("validate(cpu)");
  UseStream scope_{device_.default_stream()};
};

const auto kTail = [](const Array& x, const Array& bias, const Array& residual) {
  const Array h = x + bias;
  const Array gelu = h * 0.5F * (erf(h * 0.70710678F) + 1.0F);
  const Array r = residual + gelu;
  return r * rsqrt(mean(square(r), {.axes = {-1}, .keep_dims = true}) + 1e-6F);
};

TEST_F(FusionOfCalls, a_call_runs_one_kernel_and_without_fusion_one_for_each_operation) {
  const Array x = random_normal({4, 64}, float32, RandomKey{1});
  const Array bias = random_normal({64}, float32, RandomKey{2});
  const Array residual = random_normal({4, 64}, float32, RandomKey{3});
  const Array wanted = kTail(x, bias, residual);
  const auto fused = compile(kTail, {.name = "tail"});
  const auto apart = compile(kTail, {.name = "tail", .fuse = false});
  eval(std::vector<Array>{x, bias, residual, wanted});
  EXPECT_THAT(kernels_of([&] { return fused(x, bias, residual); }),
              ElementsAre(HasSubstr("fused")));
  EXPECT_EQ(kernels_of([&] { return apart(x, bias, residual); }).size(), 12U);
  const std::vector<float> values = wanted.to_vector<float>();
  const std::vector<float> got = fused(x, bias, residual).to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(got[i], values[i], 1e-5F);
}

TEST_F(FusionOfCalls, state_is_updated_in_its_own_memory) {
  Array state = ones({64}, float32);
  eval(state);
  const auto step = compile([&](const Array& x) { state = (state * 0.5F + x) * 2.0F; },
                            {.name = "decay", .state = {&state}});
  const Array x = ones({64}, float32);
  step(x);
  eval(state);
  const uint64_t copies = device_.stats().hidden_copies;
  const Bytes active = device_.stats().active_memory();
  for (int i = 0; i < 5; ++i) {
    step(x);
    eval(state);
    EXPECT_EQ(device_.stats().active_memory(), active);
  }
  EXPECT_EQ(device_.stats().hidden_copies, copies);
  EXPECT_EQ(state.to_vector<float>()[3], 1 + 2 * 6);
}

}  // namespace
}  // namespace holdfast::array
