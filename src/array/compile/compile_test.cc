#include "holdfast/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "holdfast/base/log.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/hal/devices.h"
#include "holdfast/kernel.h"
#include "holdfast/operation.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {

struct TestLayer {
  Array weight;
  Array bias;
  int rank = 0;
};

template <>
struct ArrayTree<TestLayer> {
  static void visit(auto& layer, const auto& visit) {
    visit(layer.weight);
    visit(layer.bias);
  }
};

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using CompileNumbers = std::vector<float>;

class CompileTest : public ::testing::Test {
 protected:
  Array numbers(const CompileNumbers& values) const {
    const auto length = static_cast<int64_t>(values.size());
    return Array(values, {length}, {}, device_);
  }
  Stats stats() const { return device_.stats(); }

  Device device_ = open_device("validate(cpu)");
  UseStream scope_{device_.default_stream()};
};

template <typename F>
std::string refusal_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(CompileTest, a_compiled_function_returns_what_the_function_returns) {
  int calls = 0;
  const auto f = compile([&](const Array& x, const Array& y) {
    ++calls;
    return sum(exp(x * 2.0F) + y, {.axes = {0}});
  });
  for (int i = 0; i < 3; ++i) {
    const auto v = static_cast<float>(i);
    const Array x = numbers({v, 1, 2});
    const Array y = numbers({1, v, 3});
    EXPECT_FLOAT_EQ(f(x, y).item<float>(), sum(exp(x * 2.0F) + y, {.axes = {0}}).item<float>());
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(stats().functions_traced, 1U);
  EXPECT_EQ(stats().replays, 3U);
  EXPECT_EQ(stats().calls_not_compiled, 0U);
}

TEST_F(CompileTest, a_call_is_lazy_and_its_results_are_arrays_like_others) {
  const auto f = compile([](const Array& x) { return std::pair(x + 1.0F, x * 2.0F); });
  const Array x = numbers({1, 2});
  auto [a, b] = f(x);
  EXPECT_FALSE(a.is_recorded());
  EXPECT_EQ(stats().replays, 0U);
  auto [c, d] = f(a + b);
  EXPECT_THAT(c.to_vector<float>(), ElementsAre(5, 8));
  EXPECT_TRUE(b.is_recorded());
  EXPECT_THAT(d.to_vector<float>(), ElementsAre(8, 14));
  EXPECT_EQ(stats().replays, 2U);
}

TEST_F(CompileTest, each_shape_dtype_and_layout_is_traced_once) {
  int calls = 0;
  const auto f = compile([&](const Array& x) {
    ++calls;
    return x + x;
  });
  const Array matrix = reshape(numbers({1, 2, 3, 4, 5, 6}), {2, 3});
  EXPECT_THAT(f(numbers({1, 2})).to_vector<float>(), ElementsAre(2, 4));
  EXPECT_THAT(f(numbers({1, 2, 3})).to_vector<float>(), ElementsAre(2, 4, 6));
  EXPECT_THAT(f(matrix).to_vector<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT(f(transpose(matrix)).to_vector<float>(), ElementsAre(2, 8, 4, 10, 6, 12));
  EXPECT_THAT(f(astype(numbers({1, 2}), int32)).to_vector<int32_t>(), ElementsAre(2, 4));
  EXPECT_EQ(calls, 5);
  EXPECT_THAT(f(numbers({5, 6, 7})).to_vector<float>(), ElementsAre(10, 12, 14));
  EXPECT_THAT(f(transpose(matrix)).to_vector<float>(), ElementsAre(2, 8, 4, 10, 6, 12));
  EXPECT_EQ(calls, 5);
}

TEST_F(CompileTest, slices_of_one_array_share_a_program) {
  int calls = 0;
  const auto f = compile([&](const Array& x) {
    ++calls;
    return x * 3.0F;
  });
  const Array all = reshape(arange(0, 4 * 64, 1, float32, device_), {4, 64});
  for (int64_t i = 0; i < 4; ++i) {
    const CompileNumbers row = f(index(all, i)).to_vector<float>();
    EXPECT_EQ(row[0], static_cast<float>(3 * 64 * i));
    EXPECT_EQ(row[63], static_cast<float>(3 * (64 * i + 63)));
  }
  EXPECT_EQ(calls, 1);
  // Backwards, and at an odd place.
  const Array odd = slice(all, {{.start = 1, .stop = 2}, {.start = 60, .stop = 3, .step = -7}});
  EXPECT_EQ(f(odd).to_vector<float>(), (odd * 3.0F).to_vector<float>());
}

TEST_F(CompileTest, arguments_may_be_the_same_array_and_may_overlap) {
  const auto f = compile([](const Array& x, const Array& y) { return x - y; });
  const Array x = numbers({5, 6, 8});
  EXPECT_THAT(f(x, x).to_vector<float>(), ElementsAre(0, 0, 0));
  const Array low = slice(x, {{.stop = 2}});
  const Array high = slice(x, {{.start = 1}});
  EXPECT_THAT(f(high, low).to_vector<float>(), ElementsAre(1, 2));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(5, 6, 8));
}

TEST_F(CompileTest, arguments_are_never_written_to) {
  const auto f = compile(
      [](const Array& x) { return slice_update(x, full({}, 9.0), {{.start = 1, .stop = 2}}); });
  Array x = numbers({1, 2, 3});
  const Array y = f(x);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(1, 9, 3));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2, 3));
}

TEST_F(CompileTest, arguments_and_results_are_trees) {
  struct Sizes {};
  const auto f = compile([](const std::vector<TestLayer>& layers, const std::array<Array, 2>& x) {
    std::vector<std::tuple<Array, TestLayer>> results;
    for (const TestLayer& layer : layers) {
      results.emplace_back(x[0] * layer.weight + layer.bias,
                           TestLayer{layer.weight + x[1], layer.bias, layer.rank + 1});
    }
    return results;
  });
  const std::vector<TestLayer> layers{{numbers({1, 2}), numbers({3, 4}), 7},
                                      {numbers({5, 6}), numbers({7, 8}), 8}};
  for (int round = 0; round < 2; ++round) {
    const auto results = f(layers, std::array{numbers({10, 20}), numbers({1, 1})});
    ASSERT_EQ(results.size(), 2U);
    EXPECT_THAT(std::get<0>(results[0]).to_vector<float>(), ElementsAre(13, 44));
    EXPECT_THAT(std::get<0>(results[1]).to_vector<float>(), ElementsAre(57, 128));
    EXPECT_THAT(std::get<1>(results[1]).weight.to_vector<float>(), ElementsAre(6, 7));
    EXPECT_THAT(std::get<1>(results[1]).bias.to_vector<float>(), ElementsAre(7, 8));
    EXPECT_EQ(std::get<1>(results[1]).rank, 9);
  }
  EXPECT_EQ(stats().functions_traced, 1U);
  // Vectors of other lengths are another signature, although they have the same arrays.
  const auto g = compile([](const std::vector<Array>& a, const std::vector<Array>& b) {
    return std::vector<Array>{a.back() + b.back()};
  });
  const Array x = numbers({1});
  const Array y = numbers({2});
  const Array z = numbers({4});
  EXPECT_EQ(g(std::vector{x}, std::vector{y, z})[0].item<float>(), 5);
  EXPECT_EQ(g(std::vector{x, y}, std::vector{z})[0].item<float>(), 6);
}

TEST_F(CompileTest, results_may_be_arguments_constants_and_views) {
  const Array w = numbers({7, 8, 9});
  const auto f = compile([&](const Array& x) {
    const Array y = x + w;
    return std::vector<Array>{x, slice(x, {{.start = 1}}), w, y, slice(y, {{.step = -1}}), y};
  });
  const Array x = slice(numbers({0, 1, 2, 3}), {{.start = 1}});
  const std::vector<Array> results = f(x);
  EXPECT_THAT(results[0].to_vector<float>(), ElementsAre(1, 2, 3));
  EXPECT_EQ(results[0].value(), x.value()) << "the argument itself";
  EXPECT_THAT(results[1].to_vector<float>(), ElementsAre(2, 3));
  EXPECT_EQ(results[2].value(), w.value());
  EXPECT_THAT(results[3].to_vector<float>(), ElementsAre(8, 10, 12));
  EXPECT_THAT(results[4].to_vector<float>(), ElementsAre(12, 10, 8));
  EXPECT_EQ(results[3].value(), results[5].value());
  const auto same = compile([](const Array& a) { return a; });
  EXPECT_EQ(same(x).value(), x.value());
}

TEST_F(CompileTest, arrays_without_elements_pass_through) {
  const auto f = compile([](const Array& x, const Array& y) {
    return std::pair(x + 1.0F, concatenate(std::vector<Array>{x, y}, 0));
  });
  const Array none = zeros({0, 3}, float32, device_);
  const Array some = ones({1, 3}, float32, device_);
  const auto [a, b] = f(none, some);
  EXPECT_TRUE(a.to_vector<float>().empty());
  EXPECT_THAT(b.to_vector<float>(), ElementsAre(1, 1, 1));
}

TEST_F(CompileTest, constants_are_frozen_and_kept) {
  Array w = numbers({1, 2});
  const auto f = compile([&](const Array& x) { return x * w; });
  EXPECT_THAT(f(numbers({10, 10})).to_vector<float>(), ElementsAre(10, 20));
  w = Array();
  for (int i = 0; i < 8; ++i) (void)(numbers({5, 5}) + 1.0F).eval();  // wants its memory
  EXPECT_THAT(f(numbers({10, 10})).to_vector<float>(), ElementsAre(10, 20));
  w = numbers({3, 4});
  EXPECT_THAT(f(numbers({10, 10})).to_vector<float>(), ElementsAre(10, 20));
}

TEST_F(CompileTest, what_depends_on_constants_alone_is_computed_once) {
  const Array lazy = numbers({1, 2}) + 1.0F;
  const auto f =
      compile([&](const Array& x) { return x + lazy * full({2}, 10.0, float32, device_); });
  EXPECT_THAT(f(numbers({1, 1})).to_vector<float>(), ElementsAre(21, 31));
  EXPECT_TRUE(lazy.is_recorded());
  const uint64_t before = stats().nodes_recorded;
  EXPECT_THAT(f(numbers({2, 2})).to_vector<float>(), ElementsAre(22, 32));
  EXPECT_EQ(stats().nodes_recorded, before + 1);
}

TEST_F(CompileTest, a_placeholder_cannot_be_read) {
  const auto f =
      compile([](const Array& x, const Array& y) { return y.item<float>() > 0 ? x : x + 1.0F; },
              {.name = "step"});
  const std::string refused = refusal_of([&] { (void)f(numbers({1}), numbers({2})); });
  EXPECT_THAT(refused, HasSubstr("argument 1 of the compiled function 'step' was evaluated"));
  EXPECT_THAT(refused, HasSubstr("where()"));
  const auto g = compile([](const Array& x) { return (x + 1.0F).to_vector<float>(), x; });
  EXPECT_THAT(refusal_of([&] { (void)g(numbers({1})); }), HasSubstr("was evaluated while"));
  EXPECT_EQ(stats().functions_traced, 0U);
}

TEST_F(CompileTest, a_function_may_catch_what_reading_a_placeholder_raises) {
  const auto f = compile([](const Array& x) {
    const Array y = x * 2.0F;
    try {
      (void)y.item<float>();
    } catch (const UsageError&) {  // NOLINT(bugprone-empty-catch)
    }
    return x + 1.0F;
  });
  EXPECT_EQ(f(numbers({1})).item<float>(), 2);
}

TEST_F(CompileTest, mlx_3624_a_function_that_throws_while_traced_leaves_nothing) {
  bool throws = true;
  Array kv = numbers({1});
  const auto f = compile(
      [&](const Array& x) {
        kv = kv + x;
        if (throws) throw std::runtime_error("not now");
        return kv * 2.0F;
      },
      {.state = {&kv}});
  EXPECT_THROW((void)f(numbers({1})), std::runtime_error);
  EXPECT_EQ(kv.item<float>(), 1);
  throws = false;
  EXPECT_EQ(f(numbers({1})).item<float>(), 4);
  EXPECT_EQ(kv.item<float>(), 2);
}

TEST_F(CompileTest, a_kernel_that_does_not_compile_is_reported_each_time_a_result_is_evaluated) {
  const Kernel broken({.name = "broken",
                       .inputs = {"x"},
                       .outputs = {"y"},
                       .source = "y[thread_position_in_grid.x] = nonsense;"});
  const auto f = compile([&](const Array& x) {
    return broken({x + 1.0F}, {.grid = {1, 1, 1},
                               .threadgroup = {1, 1, 1},
                               .output_shapes = {{1}},
                               .output_dtypes = {float32},
                               .label = "layer 3"})[0];
  });
  for (int i = 0; i < 2; ++i) {
    const Array y = f(numbers({1}));
    EXPECT_THAT(refusal_of([&] { eval(y); }), HasSubstr("broken"));
    EXPECT_THAT(refusal_of([&] { eval(y + 1.0F); }), HasSubstr("nonsense"));
  }
  EXPECT_EQ(stats().functions_traced, 1U);
}

TEST_F(CompileTest, state_is_updated_in_place) {
  Array kv = numbers({0, 0, 0});
  const auto f = compile(
      [&](const Array& x) {
        Array before = sum(kv);
        kv = slice_update(kv, x, {{.start = 1, .stop = 2}});
        return before;
      },
      {.state = {&kv}});
  const hal::Allocation* const memory = kv.value()->memory().get();
  const uint64_t copies = stats().hidden_copies;
  EXPECT_EQ(f(numbers({5})).item<float>(), 0);
  EXPECT_EQ(f(numbers({7})).item<float>(), 5);
  EXPECT_THAT(kv.to_vector<float>(), ElementsAre(0, 7, 0));
  EXPECT_EQ(kv.value()->memory().get(), memory);
  EXPECT_EQ(stats().hidden_copies, copies);
  EXPECT_EQ(stats().functions_traced, 1U);
}

TEST_F(CompileTest, state_that_others_see_is_copied_first) {
  Array kv = numbers({1, 2});
  const auto f = compile([&](const Array& x) { kv = kv + x; }, {.state = {&kv}});
  const Array kept = kv;
  const uint64_t copies = stats().hidden_copies;
  f(numbers({1, 1}));
  EXPECT_THAT(kv.to_vector<float>(), ElementsAre(2, 3));
  EXPECT_THAT(kept.to_vector<float>(), ElementsAre(1, 2));
  EXPECT_EQ(stats().hidden_copies, copies + 1);
  // The argument is the state itself.
  f(kv);
  EXPECT_THAT(kv.to_vector<float>(), ElementsAre(4, 6));
}

TEST_F(CompileTest, state_may_leave_in_another_shape) {
  Array kv = numbers({1, 2, 3, 4});
  const auto f = compile([&](const Array& x) { kv = reshape(kv, {2, 2}) + x; }, {.state = {&kv}});
  const Array x = numbers({10});
  for (const bool seen : {false, true}) {  // in its own memory, and in a copy
    kv = numbers({1, 2, 3, 4});
    eval(kv);
    const Array other = seen ? kv : Array();
    f(x);
    EXPECT_EQ(kv.shape(), (Shape{2, 2}));
    EXPECT_THAT(kv.to_vector<float>(), ElementsAre(11, 12, 13, 14));
    if (!seen) continue;
    EXPECT_THAT(other.to_vector<float>(), ElementsAre(1, 2, 3, 4));
  }
}

TEST_F(CompileTest, state_may_be_a_view_in_another_order) {
  const Array m = reshape(numbers({1, 2, 3, 4, 5, 6}), {2, 3});
  const Array x = reshape(numbers({10, 20, 30, 40, 50, 60}), {2, 3});
  eval(std::vector{m, x});
  for (const bool square : {false, true}) {
    const Array a = square ? slice(m, {{}, {.start = 0, .stop = 2}}) : m;
    const Array b = square ? slice(x, {{}, {.start = 0, .stop = 2}}) : x;
    Array kv = transpose(contiguous(a));
    const CompileNumbers expected = contiguous(a + b).to_vector<float>();
    const auto f = compile([&](const Array& y) { kv = transpose(kv) + y; }, {.state = {&kv}});
    f(b);
    EXPECT_EQ(kv.to_vector<float>(), expected) << square;
  }
}

TEST_F(CompileTest, state_may_be_replaced_between_calls) {
  Array kv = numbers({1, 2});
  const auto f = compile([&](const Array& x) { kv = kv * x; }, {.state = {&kv}});
  f(numbers({2, 2}));
  kv = numbers({10, 20});
  f(numbers({3, 3}));
  EXPECT_THAT(kv.to_vector<float>(), ElementsAre(30, 60));
  kv = numbers({1, 2, 3});
  f(numbers({3, 3, 3}));
  EXPECT_THAT(kv.to_vector<float>(), ElementsAre(3, 6, 9));
  kv = slice(numbers({1, 2, 3, 4}), {{.start = 1, .stop = 3}});
  f(numbers({3, 3}));
  EXPECT_THAT(kv.to_vector<float>(), ElementsAre(6, 9));
}

TEST_F(CompileTest, state_may_be_swapped_grown_dropped_and_left_alone) {
  Array a = numbers({1});
  Array b = numbers({2});
  Array c = numbers({3});
  Array d = numbers({4});
  const auto f = compile(
      [&](const Array& x) {
        std::swap(a, b);
        c = concatenate(std::vector<Array>{c, x}, 0);
        const Array gone = d + x;  // may take d's memory, and is not returned
        d = x;
        return sum(gone * 2.0F);
      },
      {.state = {&a, &b, &c, &d}});
  EXPECT_EQ(f(numbers({10})).item<float>(), 28);
  EXPECT_EQ(a.item<float>(), 2);
  EXPECT_EQ(b.item<float>(), 1);
  EXPECT_THAT(c.to_vector<float>(), ElementsAre(3, 10));
  EXPECT_EQ(d.item<float>(), 10);
  EXPECT_EQ(f(numbers({20})).item<float>(), 60);
  EXPECT_EQ(a.item<float>(), 1);
  EXPECT_THAT(c.to_vector<float>(), ElementsAre(3, 10, 20));
}

TEST_F(CompileTest, one_hundred_lazy_steps_update_state_in_one_memory) {
  Array kv = numbers({0, 0});
  const auto step = compile([&] { kv = kv + 1.0F; }, {.state = {&kv}});
  const hal::Allocation* const memory = kv.value()->memory().get();
  for (int i = 0; i < 100; ++i) step();
  EXPECT_THAT(kv.to_vector<float>(), ElementsAre(100, 100));
  EXPECT_EQ(kv.value()->memory().get(), memory);
}

TEST_F(CompileTest, calls_that_overlap_and_share_state_are_refused) {
  Array kv = numbers({1});
  const auto inner = compile([&](const Array& x) { return x + kv; }, {.state = {&kv}});
  std::string refused;
  const auto outer = compile(
      [&](const Array& x) {
        sync::Thread other("other", [&] {
          const UseStream scope(device_.default_stream());
          refused = refusal_of([&] { (void)inner(numbers({1})); });
        });
        other.join();
        return x + kv;
      },
      {.name = "outer", .state = {&kv}});
  (void)outer(numbers({1}));
  EXPECT_THAT(refused, HasSubstr("two calls that overlap share state"));
  EXPECT_EQ(inner(numbers({1})).item<float>(), 2);
}

TEST_F(CompileTest, check_notices_another_constant_and_another_operation) {
  Array w = numbers({1, 2});
  bool adds = true;
  const auto f = compile(
      [&](const Array& x) {
        const Array one = full({2}, 1.0, float32, device_);  // made anew, with the same elements
        return adds ? x + w * one : x - w * one;
      },
      {.name = "step", .check = true});
  const Array x = numbers({5, 5});
  EXPECT_THAT(f(x).to_vector<float>(), ElementsAre(6, 7));
  EXPECT_THAT(f(x).to_vector<float>(), ElementsAre(6, 7));
  const Array before = w;
  w = numbers({1, 2});
  EXPECT_THAT(f(x).to_vector<float>(), ElementsAre(6, 7)) << "the same elements";
  w = numbers({3, 4});
  EXPECT_THAT(refusal_of([&] { (void)f(x); }), HasSubstr("constant 0"));
  w = before;
  adds = false;
  EXPECT_THAT(refusal_of([&] { (void)f(x); }), HasSubstr("'add' to float32(2,) and is 'subtract'"));
}

TEST_F(CompileTest, a_function_with_native_commands_runs_uncompiled) {
  class Native final : public Operation {
   public:
    std::string_view name() const noexcept override { return "native_copy"; }
    void record(Encoder& encoder) const override {
      const Operand in = encoder.contiguous(encoder.input(0));
      const Operand out = encoder.output(0);
      encoder.native(
          [](const NativeCall& call) {
            std::ranges::copy(call.host_bindings[0], call.host_bindings[1].begin());
          },
          {&in, 1}, {&out, 1});
    }
  };
  std::vector<std::string> said;
  logging::set_enabled(logging::Topic::compile, true);
  const logging::Sink before =
      logging::set_sink([&](const logging::Message& message) { said.emplace_back(message.text); });
  int calls = 0;
  const auto f = compile(
      [&](const Array& x) {
        ++calls;
        return apply(make_ref<const Native>(), std::span(&x, 1), OutputType{x.shape(), x.dtype()}) +
               1.0F;
      },
      {.name = "through_native"});
  EXPECT_THAT(f(numbers({1, 2})).to_vector<float>(), ElementsAre(2, 3));
  EXPECT_THAT(f(numbers({3, 4})).to_vector<float>(), ElementsAre(4, 5));
  logging::set_sink(before);
  logging::set_enabled(logging::Topic::compile, false);
  EXPECT_EQ(calls, 3) << "once to trace it";
  EXPECT_EQ(stats().calls_not_compiled, 2U);
  EXPECT_THAT(said, ::testing::Contains(HasSubstr(
                        "'through_native' is not compiled: 'native_copy' records native")));
}

TEST_F(CompileTest, a_function_of_two_devices_runs_uncompiled) {
  const Device other = open_device("cpu");
  const auto f = compile([&](const Array& x) { return (x.to(other) + 1.0F).to(device_) * 2.0F; });
  EXPECT_EQ(f(numbers({1})).item<float>(), 4);
  EXPECT_EQ(stats().calls_not_compiled, 1U);
  const auto g = compile([](const Array& x, const Array& y) { return x.to(y.device()) + y; });
  EXPECT_EQ(g(numbers({1}), Array(CompileNumbers{2}, {1}, {}, other)).item<float>(), 3);
}

TEST_F(CompileTest, memory_around_an_argument_is_shown_as_without_compile) {
  const auto f = compile([](const Array& x) { return as_strided(x, {2}, {2}, 1) + 1.0F; });
  const Array all = numbers({1, 2, 3, 4});
  const Array part = slice(all, {{.start = 1, .stop = 3}});
  EXPECT_THAT(f(all).to_vector<float>(), ElementsAre(3, 5));
  EXPECT_THAT(f(part).to_vector<float>(), ElementsAre(3, 5)) << "of the array it is a view of";
  EXPECT_EQ(stats().calls_not_compiled, 1U);
  EXPECT_THAT(f(numbers({5, 6, 7, 8})).to_vector<float>(), ElementsAre(7, 9));
  EXPECT_EQ(stats().calls_not_compiled, 1U);
}

TEST_F(CompileTest, memory_behind_an_argument_without_elements_is_shown_as_without_compile) {
  const auto f = compile([](const Array& x) { return as_strided(x, {}, {}, 0) + 1.0F; });
  const Array none = slice(numbers({1, 2, 3, 4}), {{.start = 2, .stop = 2}});
  ASSERT_EQ(none.size(), 0U);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(f(none).item<float>(), (as_strided(none, {}, {}, 0) + 1.0F).item<float>());
  }
}

TEST_F(CompileTest, a_compiled_function_becomes_part_of_another_one) {
  const auto inner = compile([](const Array& x) { return x + 1.0F; });
  const auto outer = compile([&](const Array& x) { return inner(inner(x)) * 2.0F; });
  EXPECT_EQ(outer(numbers({1})).item<float>(), 6);
  EXPECT_EQ(stats().functions_traced, 1U);
  Array kv = numbers({1});
  const auto stateful = compile([&] { kv = kv + 1.0F; }, {.name = "tick", .state = {&kv}});
  const auto around = compile([&](const Array& x) { return stateful(), x; });
  EXPECT_THAT(refusal_of([&] { (void)around(numbers({1})); }),
              HasSubstr("'tick' has state and is called while another function is traced"));
}

TEST_F(CompileTest, two_thousand_arrays_are_ordinary) {
  constexpr size_t kCount = 2000;
  const auto f = compile([](const std::vector<Array>& all) {
    std::vector<Array> results;
    for (size_t i = 0; i < all.size(); ++i) results.push_back(all[i] + all[(i + 7) % all.size()]);
    return results;
  });
  std::vector<Array> arrays;
  for (size_t i = 0; i < kCount; ++i) arrays.push_back(numbers({static_cast<float>(i)}));
  for (int round = 0; round < 2; ++round) {
    const std::vector<Array> results = f(arrays);
    ASSERT_EQ(results.size(), kCount);
    for (size_t i = 0; i < kCount; i += 101) {
      EXPECT_EQ(results[i].item<float>(), static_cast<float>(i + (i + 7) % kCount));
    }
  }
  EXPECT_EQ(stats().calls_not_compiled, 0U);
}

TEST_F(CompileTest, mlx_4464_many_signatures_are_bounded_and_the_user_is_told_what_varies) {
  std::vector<std::string> said;
  const logging::Sink before = logging::set_sink([&](const logging::Message& message) {
    if (message.warning) said.emplace_back(message.text);
  });
  const auto f = compile([](const Array& w, const Array& x) { return sum(x) * w; },
                         {.name = "step", .max_programs = 4});
  const Array w = numbers({2});
  for (int64_t n = 1; n <= 12; ++n) {
    EXPECT_EQ(f(w, ones({1, n}, float32, device_)).item<float>(), static_cast<float>(2 * n));
  }
  logging::set_sink(before);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], HasSubstr("'step' was traced for more than 4 signatures"));
  EXPECT_THAT(said[0], HasSubstr("the shape of argument 1 varies, lately (1, 4) and (1, 5)"));
  EXPECT_EQ(stats().functions_traced, 12U);
  EXPECT_EQ(f(w, ones({1, 12}, float32, device_)).item<float>(), 24);
  EXPECT_EQ(stats().functions_traced, 12U);
  EXPECT_EQ(f(w, ones({1, 1}, float32, device_)).item<float>(), 2);
  EXPECT_EQ(stats().functions_traced, 13U);
}

// Memory stays flat, and an old signature is traced again.
TEST_F(CompileTest, mlx_4464_ten_thousand_signatures_nightly) {
  std::vector<std::string> said;
  const logging::Sink before = logging::set_sink([&](const logging::Message& message) {
    if (message.warning) said.emplace_back(message.text);
  });
  const Array w = numbers({3});
  const auto f = compile([&](const Array& x) { return sum(x) * w; });
  Bytes live;
  for (int64_t n = 1; n <= 10'000; ++n) {
    ASSERT_EQ(f(ones({n}, float32, device_)).item<float>(), static_cast<float>(3 * n));
    if (n == 5000) live = stats().runtime.memory.live;
  }
  logging::set_sink(before);
  device_.synchronize();
  EXPECT_LE(stats().runtime.memory.live.value, live.value + 1024 * 1024);
  EXPECT_EQ(said.size(), 1U);
  EXPECT_EQ(f(ones({1}, float32, device_)).item<float>(), 3);
  EXPECT_EQ(stats().functions_traced, 10'001U);
}

TEST_F(CompileTest, options_that_make_no_sense_are_refused) {
  Array kv = numbers({1});
  const auto f = [](const Array& x) { return x; };
  EXPECT_THAT(refusal_of([&] { (void)compile(f, {.state = {nullptr}}); }), HasSubstr("is null"));
  EXPECT_THAT(refusal_of([&] {
                (void)compile(f, {.state = {&kv, &kv}});
              }),
              HasSubstr("state 0 and 1 are the same variable"));
  EXPECT_THAT(refusal_of([&] { (void)compile(f, {.max_programs = 0}); }), HasSubstr("at least 1"));
  EXPECT_THAT(refusal_of([&] { (void)compile(f)(Array()); }),
              HasSubstr("argument 0 of the compiled function"));
}

TEST_F(CompileTest, intermediates_share_memory_as_their_lifetimes_allow) {
  const auto chain = [](Array x) {
    for (int i = 0; i < 20; ++i) x = sum(stack(std::vector<Array>{x, x + 1.0F}, 0), {.axes = {0}});
    return x;
  };
  const Array x = full({256}, 1.0, float32, device_);
  eval(x);
  const auto f = compile(chain);
  const CompileNumbers expected = chain(x).to_vector<float>();
  const Bytes live = stats().runtime.memory.live;
  const Array y = f(x);
  eval(y);
  device_.synchronize();
  EXPECT_EQ(y.to_vector<float>(), expected);
  // Two stacked rows, their sum and what was summed before: not twenty times that.
  EXPECT_LT(stats().runtime.memory.live_peak - live, 32_KiB);
}

TEST_F(CompileTest, memory_that_is_short_is_reported_and_the_call_can_be_repeated) {
  const auto f = compile([](const Array& x) { return sum(exp(x)); });
  const Array x = full({1 << 22}, 0.0, float32, device_);
  eval(x);
  const Array y = f(x);
  device_.clear_cache();
  device_.set_memory_limit(stats().runtime.memory.live + 8_MiB);
  EXPECT_THROW(eval(y), OutOfMemoryError);
  device_.set_memory_limit({});
  EXPECT_EQ(y.item<float>(), static_cast<float>(1 << 22));
}

TEST_F(CompileTest, threads_replay_one_program_on_streams_of_their_own) {
  const auto f = compile([](const Array& x) { return (x + 1.0F) * (x + 2.0F); });
  std::vector<sync::Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("caller", [&, t] {
      const UseStream scope(device_.new_stream("own"));
      for (int i = 0; i < 20; ++i) {
        const auto v = static_cast<float>(t * 100 + i);
        EXPECT_EQ(f(numbers({v})).item<float>(), (v + 1) * (v + 2));
      }
    });
  }
  for (sync::Thread& thread : threads) thread.join();
  EXPECT_EQ(stats().replays, 80U);
}

// A second program of the signature would be one more than the function may have, and warned of.
TEST_F(CompileTest, threads_that_trace_one_signature_together_keep_one_program) {
  constexpr int kThreads = 2;
  const Array x = numbers({1});
  ::testing::internal::CaptureStderr();
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> inside{0};
    const auto f = compile(
        [&](const Array& a) {
          ++inside;
          for (unsigned attempt = 0; inside < kThreads; ++attempt) sync::relax(attempt);
          return a + 1.0F;
        },
        {.name = "met", .max_programs = 1});
    std::vector<sync::Thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back("tracer", [&] { (void)f(x); });
    for (sync::Thread& thread : threads) thread.join();
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace holdfast
