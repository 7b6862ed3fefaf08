// Functions that are called once for all lengths of their arguments.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "holdfast/compile.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/fast.h"
#include "holdfast/kernel.h"
#include "holdfast/operation.h"
#include "holdfast/ops.h"
#include "holdfast/scans.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

class Shapeless : public ::testing::Test {
 protected:
  // Compares f with itself compiled for these shapes, one after the other; how often f was called.
  template <typename F>
  int calls_of(const F& f, const std::vector<Shape>& shapes) {
    int calls = 0;
    const auto compiled = compile(
        [&](const Array& x) {
          ++calls;
          return f(x);
        },
        {.shapeless = true});
    for (const Shape& shape : shapes) {
      const Array x = random_normal(shape);
      const Array expected = f(x);
      const Array shown = compiled(x);
      EXPECT_EQ(shown.shape(), expected.shape()) << to_string(shape);
      const std::vector<float> a = shown.to_vector<float>();
      const std::vector<float> b = expected.to_vector<float>();
      EXPECT_EQ(a.size(), b.size()) << to_string(shape);
      for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
        EXPECT_NEAR(a[i], b[i], 1e-5 * (1 + std::abs(b[i]))) << to_string(shape) << ", " << i;
      }
    }
    return calls;
  }
  template <typename F>
  std::string refusal_of(const F& f, const Array& x) {
    try {
      const auto g = compile(f, {.name = "step", .shapeless = true});
      eval(g(x));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  Device device_ = open_device("validate(cpu)");
  UseStream scope_{device_.default_stream()};
};

TEST_F(Shapeless, the_function_is_called_once_for_each_number_of_axes) {
  const auto f = [](const Array& x) { return exp(x * 2.0F) + astype(x > 0.0F, float32); };
  EXPECT_EQ(calls_of(f, {{3}, {7}, {2, 3}, {4, 5}, {5}}), 2);
  // What is done with an axis of length 1, or none, may be something else for a longer one.
  EXPECT_EQ(calls_of(f, {{3}, {1}, {7}, {1}, {4, 1}, {5, 1}, {1, 1}, {0}}), 5);
}

TEST_F(Shapeless, reductions_softmax_norms_scans_and_products_go_along) {
  const Array w = random_normal({6, 5});
  EXPECT_EQ(calls_of([](const Array& x) { return softmax(x, -1) - mean(x, {.axes = {0}}); },
                     {{4, 6}, {9, 2}, {5, 3}}),
            1);
  EXPECT_EQ(
      calls_of(
          [](const Array& x) { return x / sum(x * x, {.axes = {1}, .keep_dims = true}) + max(x); },
          {{4, 6}, {9, 2}, {5, 7}}),
      1);
  EXPECT_EQ(calls_of([&](const Array& x) { return matmul(x, w); }, {{4, 6}, {9, 6}, {2, 6}}), 1);
  EXPECT_EQ(calls_of([](const Array& x) { return matmul(x, transpose(x)); }, {{4, 6}, {9, 2}}), 1);
  EXPECT_EQ(
      calls_of(
          [](const Array& x) { return cumsum(fast::rms_norm(x, sum(x, {.axes = {0}}), 1e-5F), 1); },
          {{4, 6}, {9, 2}}),
      1);
}

TEST_F(Shapeless, views_exchange_axes_and_insert_and_drop_those_of_length_one) {
  const Array w = random_normal({6});
  EXPECT_EQ(calls_of(
                [](const Array& x) {
                  return transpose(x, {2, 0, 1}) + expand_dims(sum(x, {.axes = {0, 1}}), {1, 2});
                },
                {{4, 6, 3}, {2, 9, 5}, {7, 7, 7}}),
            1);
  EXPECT_EQ(calls_of([&](const Array& x) { return matmul(x, w); }, {{4, 6}, {9, 6}}), 1);
  EXPECT_EQ(calls_of(
                [](const Array& x) {
                  return squeeze(sum(x, {.axes = {1}, .keep_dims = true}), {1}) * 2.0F;
                },
                {{4, 6}, {9, 2}}),
            1);
}

TEST_F(Shapeless, a_result_may_be_an_argument_and_several_results_are_views) {
  int calls = 0;
  const auto f = compile(
      [&](const Array& x, const Array& y) {
        ++calls;
        const Array z = x + y;
        return std::vector<Array>{x, transpose(z), expand_dims(z, {0}), z};
      },
      {.shapeless = true});
  for (const int64_t n : {2, 5, 3}) {
    const Array x = random_normal({n, 4});
    const Array y = random_normal({n, 4});
    const std::vector<Array> shown = f(x, y);
    EXPECT_EQ(shown[0].to_vector<float>(), x.to_vector<float>());
    EXPECT_EQ(shown[1].to_vector<float>(), transpose(x + y).to_vector<float>());
    EXPECT_EQ(shown[2].shape(), (Shape{1, n, 4}));
    EXPECT_EQ(shown[3].to_vector<float>(), (x + y).to_vector<float>());
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(device_.stats().functions_traced, 1U);
  EXPECT_EQ(device_.stats().calls_not_compiled, 0U);
}

TEST_F(Shapeless, arguments_lie_in_any_way) {
  int calls = 0;
  const auto f = compile(
      [&](const Array& x) {
        ++calls;
        return x * 2.0F + transpose(x);
      },
      {.shapeless = true});
  const Array all = random_normal({9, 9});
  for (const auto& x : {slice(all, {{.stop = 4}, {.stop = 4}}), transpose(all),
                        slice(all, {{.start = 3, .stop = 9}, {.start = 8, .stop = 2, .step = -1}}),
                        slice(all, {{.start = 4, .stop = 5}, {.start = 4, .stop = 5}})}) {
    EXPECT_EQ(f(x).to_vector<float>(), (x * 2.0F + transpose(x)).to_vector<float>());
  }
  EXPECT_EQ(calls, 2) << "axes of length 1 are a kind of their own";
}

TEST_F(Shapeless, state_changes_its_length) {
  int calls = 0;
  Array kv = random_normal({3});
  const auto f = compile(
      [&](const Array& x) {
        ++calls;
        kv = kv * 0.5F + x;
      },
      {.state = {&kv}, .shapeless = true});
  for (const int64_t n : {3, 8, 3}) {
    kv = random_normal({n});
    const Array x = random_normal({n});
    const std::vector<float> expected = (kv * 0.5F + x).to_vector<float>();
    f(x);
    EXPECT_EQ(kv.to_vector<float>(), expected);
  }
  EXPECT_EQ(calls, 1);
}

TEST_F(Shapeless, what_names_lengths_is_refused_where_it_stands) {
  const Array x = random_normal({4, 6});
  const std::string refused =
      refusal_of([](const Array& a) { return slice(a, {{.stop = 4}}) + 1.0F; }, x);
  EXPECT_THAT(refused, HasSubstr("the compiled function 'step' is shapeless, and slice names"));
  EXPECT_THAT(refusal_of([](const Array& a) { return reshape(a, {24}); }, x), HasSubstr("reshape"));
  EXPECT_THAT(refusal_of(
                  [](const Array& a) {
                    return broadcast_to(a, {4, 6});
                  },
                  x),
              HasSubstr("broadcast_to"));
  EXPECT_THAT(refusal_of([](const Array& a) { return index(a, 0); }, x), HasSubstr("index"));
  EXPECT_THAT(refusal_of([](const Array& a) { return split(a, 2, 0); }, x), HasSubstr("split"));
  EXPECT_THAT(refusal_of([](const Array& a) { return flip(a, {0}) + 1.0F; }, x),
              HasSubstr("slice"));
}

TEST_F(Shapeless, operations_that_do_not_say_what_becomes_of_them_are_refused_by_name) {
  const Kernel copies({.name = "copies",
                       .inputs = {"x"},
                       .outputs = {"y"},
                       .source = "uint i = thread_position_in_grid.x; y[i] = x[i];"});
  const Array x = random_normal({4});
  EXPECT_THAT(refusal_of(
                  [&](const Array& a) {
                    return copies({a}, {.grid = {4, 1, 1},
                                        .threadgroup = {4, 1, 1},
                                        .output_shapes = {{4}},
                                        .output_dtypes = {float32}})[0];
                  },
                  x),
              HasSubstr("'copies' does not say which shapes its results have"));
  EXPECT_THAT(refusal_of(
                  [&](const Array& a) {
                    return concatenate(std::vector{a, a}, 0);
                  },
                  x),
              HasSubstr("does not say which shapes"));
}

class Doubled final : public Operation {
 public:
  std::string_view name() const noexcept override { return "doubled"; }
  void record(Encoder& encoder) const override {
    const int64_t n = encoder.input(0).size();
    for (int64_t half = 0; half < 2; ++half) {
      encoder.copy_elements(encoder.input(0), encoder.output(0).with_layout({{n}, {1}, half * n}));
    }
  }
  std::vector<Shape> output_shapes(std::span<const Shape> inputs,
                                   std::span<const Shape> /*before*/) const override {
    return {{2 * inputs[0][0]}};
  }
};

TEST_F(Shapeless, a_users_operation_may_say_what_becomes_of_it) {
  const auto doubled = [](const Array& x) {
    return apply(make_ref<const Doubled>(), {&x, 1}, {{2 * x.shape()[0]}, x.dtype()}) + 1.0F;
  };
  EXPECT_EQ(calls_of(doubled, {{3}, {5}, {2}}), 1);
}

TEST_F(Shapeless, lengths_that_do_not_fit_are_refused_as_by_the_operation) {
  const Array w = random_normal({6, 5});
  const auto product = compile([&](const Array& x) { return matmul(x, w); }, {.shapeless = true});
  EXPECT_EQ(product(random_normal({2, 6})).shape(), (Shape{2, 5}));
  EXPECT_THROW((void)product(random_normal({2, 7})), UsageError);
  const Array bias = random_normal({4});
  const auto sum_of = compile([&](const Array& x) { return x + bias; }, {.shapeless = true});
  EXPECT_EQ(sum_of(random_normal({4})).shape(), (Shape{4}));
  EXPECT_EQ(sum_of(random_normal({1})).shape(), (Shape{4}));
  EXPECT_THROW((void)sum_of(random_normal({3})), UsageError);
  EXPECT_EQ(sum_of(random_normal({4})).shape(), (Shape{4})) << "nothing was lost";
}

// Nobody could tell a transpose from nothing there.
TEST_F(Shapeless, axes_of_length_one_and_none_are_traced_by_themselves) {
  const auto turned = [](const Array& x) { return transpose(x) + 0.0F; };
  EXPECT_EQ(calls_of(turned, {{1, 1}, {2, 3}, {0, 0}, {4, 2}, {1, 5}, {1, 7}}), 4);
  EXPECT_EQ(calls_of([](const Array& x) { return matmul(transpose(x), x); },
                     {{1, 1}, {2, 2}, {1, 3}, {3, 4}}),
            3);
  const auto f = compile([](const Array& x) { return squeeze(x, {0}) + 1.0F; },
                         {.name = "dropper", .shapeless = true});
  EXPECT_EQ(f(random_normal({1, 3})).shape(), (Shape{3}));
  EXPECT_EQ(f(random_normal({1, 5})).shape(), (Shape{5}));
  EXPECT_THROW((void)f(random_normal({2, 3})), UsageError);
}

TEST_F(Shapeless, constants_may_be_views) {
  const Array w = random_normal({3, 4});
  EXPECT_EQ(
      calls_of([&](const Array& x) { return x * index(w, 1) + transpose(slice(w, {{.stop = 1}})); },
               {{4, 4}, {4, 4}}),
      1);
}

TEST_F(Shapeless, what_comes_of_lengths_in_the_library_is_refused) {
  const Array x = random_normal({4, 4});
  for (const auto& f : std::vector<std::function<Array(const Array&)>>{
           [](const Array& a) { return a + zeros_like(a); },
           [](const Array& a) { return cumsum(ones_like(a), 0) * a; },
           [](const Array& a) { return tril(a); },
           [](const Array& a) { return a * arange(0, 4, 1, float32); },
           [](const Array& a) { return var(a); },
           [](const Array& a) { return std(a, {.axes = {0}}); },
           [](const Array& a) { return roll(a, 4, 0); }, [](const Array& a) { return diff(a); },
           [](const Array& a) { return repeat(a, 1, 0); },
           [](const Array& a) {
             return tile(a, {1, 1});
           }}) {
    EXPECT_THAT(refusal_of(f, x), HasSubstr("shapeless"));
  }
}

}  // namespace
}  // namespace holdfast
