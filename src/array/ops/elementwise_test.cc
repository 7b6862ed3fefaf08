// Every elementwise operation against a double-precision reference.

#include <gtest/gtest.h>

#include <functional>

#include "holdfast/array/ops/elementwise.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

using array::ResultType;
using numeric::array_of;
using numeric::kLies;
using numeric::laid_out;
using numeric::Lie;
using numeric::values_of;

struct Range {
  double low;
  double high;
};
constexpr Range kAny{-9, 9};
constexpr Range kPositive{0.05, 30};
constexpr Range kTruth{-0.9, 1.9};

using Operands = std::vector<Array>;
struct Case {
  const char* name;
  std::function<Array(const Operands&)> apply;
  // Of the operands; the dtype is the one they are computed in.
  std::function<double(const double*, Dtype)> reference;
  std::vector<Range> operands;
  ResultType result = ResultType::promoted;
  // What the function itself may be off by, in roundings of the type that it is computed in: none
  // for operations that IEEE rounds correctly, else what libraries promise for it.
  double ulps = 0;
};

using UnaryFunction = Array (*)(const Array&, const On&);
using BinaryFunction = Array (*)(const Term&, const Term&, const On&);

Case unary(const char* name, UnaryFunction f, double (*reference)(double), Range range,
           ResultType result = ResultType::promoted, double ulps = 0) {
  return {name,
          [f](const Operands& x) { return f(x[0], {}); },
          [reference](const double* x, Dtype) { return reference(x[0]); },
          {range},
          result,
          ulps};
}
Case function(const char* name, UnaryFunction f, double (*reference)(double), Range range,
              double ulps) {
  return unary(name, f, reference, range, ResultType::floating, ulps);
}
Case binary(const char* name, BinaryFunction f, double (*reference)(double, double, Dtype),
            Range a = kAny, Range b = kAny, ResultType result = ResultType::promoted,
            double ulps = 0) {
  return {name,
          [f](const Operands& x) { return f(x[0], x[1], {}); },
          [reference](const double* x, Dtype d) { return reference(x[0], x[1], d); },
          {a, b},
          result,
          ulps};
}
Case comparison(const char* name, BinaryFunction f, double (*reference)(double, double, Dtype),
                Range range = {-3, 3}) {
  return binary(name, f, reference, range, range, ResultType::boolean);
}

// As Python has them.
double remainder_of(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double floor_divided(double a, double b) { return std::round((a - remainder_of(a, b)) / b); }

std::vector<Case> cases() {
  constexpr double kNone = 0;
  return {
      binary("add", add, [](double a, double b, Dtype) { return a + b; }),
      binary("subtract", subtract, [](double a, double b, Dtype) { return a - b; }),
      binary("multiply", multiply, [](double a, double b, Dtype) { return a * b; }),
      binary(
          "divide", divide, [](double a, double b, Dtype) { return a / b; }, kAny, kAny,
          ResultType::floating),
      binary("floor_divide", floor_divide,
             [](double a, double b, Dtype d) {
               return b == 0 ? (is_floating(d) ? a / b : 0) : floor_divided(a, b);
             }),
      binary(
          "remainder", remainder,
          [](double a, double b, Dtype d) {
            return b == 0 && !is_floating(d) ? 0 : remainder_of(a, b);
          },
          kAny, kAny, ResultType::promoted, 1),
      binary(
          "power", power, [](double a, double b, Dtype) { return std::pow(a, b); }, {0.4, 3},
          {0, 4}, ResultType::promoted, 4),
      binary("maximum", maximum, [](double a, double b, Dtype) { return std::max(a, b); }),
      binary("minimum", minimum, [](double a, double b, Dtype) { return std::min(a, b); }),
      unary(
          "negative", negative, [](double a) { return -a; }, kAny),
      unary(
          "abs", abs, [](double a) { return std::abs(a); }, kAny),
      unary("sign", sign, [](double a) { return a > 0   ? 1.0
                                                : a < 0 ? -1.0
                                                        : 0.0; }, {-2, 2}),
      unary(
          "square", square, [](double a) { return a * a; }, kAny),
      function(
          "exp", exp, [](double a) { return std::exp(a); }, kAny, 2),
      function(
          "expm1", expm1, [](double a) { return std::expm1(a); }, kAny, 2),
      function(
          "log", log, [](double a) { return std::log(a); }, kPositive, 2),
      function(
          "log1p", log1p, [](double a) { return std::log1p(a); }, {-0.9, 20}, 2),
      function(
          "log2", log2, [](double a) { return std::log2(a); }, kPositive, 2),
      function(
          "sqrt", sqrt, [](double a) { return std::sqrt(a); }, kPositive, kNone),
      function(
          "rsqrt", rsqrt, [](double a) { return 1 / std::sqrt(a); }, kPositive, 2),
      function(
          "sin", sin, [](double a) { return std::sin(a); }, kAny, 2),
      function(
          "cos", cos, [](double a) { return std::cos(a); }, kAny, 2),
      function(
          "tan", tan, [](double a) { return std::tan(a); }, kAny, 2),
      function(
          "sinh", sinh, [](double a) { return std::sinh(a); }, kAny, 4),
      function(
          "cosh", cosh, [](double a) { return std::cosh(a); }, kAny, 4),
      function(
          "tanh", tanh, [](double a) { return std::tanh(a); }, {-4, 4}, 4),
      function(
          "erf", erf, [](double a) { return std::erf(a); }, {-4, 4}, 2),
      // An exponential, a sum and a quotient.
      function(
          "sigmoid", sigmoid, [](double a) { return 1 / (1 + std::exp(-a)); }, kAny, 4),
      function(
          "reciprocal", reciprocal, [](double a) { return 1 / a; }, kPositive, kNone),
      unary(
          "floor", floor, [](double a) { return std::floor(a); }, kAny),
      unary(
          "ceil", ceil, [](double a) { return std::ceil(a); }, kAny),
      unary(
          "round", round, [](double a) { return std::nearbyint(a); }, kAny),
      comparison("equal", equal, [](double a, double b, Dtype) { return double(a == b); }),
      comparison("not_equal", not_equal, [](double a, double b, Dtype) { return double(a != b); }),
      comparison("less", less, [](double a, double b, Dtype) { return double(a < b); }),
      comparison("less_equal", less_equal,
                 [](double a, double b, Dtype) { return double(a <= b); }),
      comparison("greater", greater, [](double a, double b, Dtype) { return double(a > b); }),
      comparison("greater_equal", greater_equal,
                 [](double a, double b, Dtype) { return double(a >= b); }),
      comparison(
          "logical_and", logical_and,
          [](double a, double b, Dtype) { return double(a != 0 && b != 0); }, kTruth),
      comparison(
          "logical_or", logical_or,
          [](double a, double b, Dtype) { return double(a != 0 || b != 0); }, kTruth),
      unary(
          "logical_not", logical_not, [](double a) { return double(a == 0); }, kTruth,
          ResultType::boolean),
      unary(
          "isnan", isnan, [](double a) { return double(std::isnan(a)); }, kAny,
          ResultType::boolean),
      {"where",
       [](const Operands& x) { return where(x[0], x[1], x[2]); },
       [](const double* x, Dtype) { return x[0] != 0 ? x[1] : x[2]; },
       {kTruth, kAny, kAny}},
      {"clip",
       [](const Operands& x) { return clip(x[0], x[1], x[2]); },
       [](const double* x, Dtype) { return std::min(std::max(x[0], x[1]), x[2]); },
       {kAny, {-5, 0}, {1, 6}}},
  };
}

Dtype result_dtype(const Case& c, Dtype dtype) {
  switch (c.result) {
    case ResultType::promoted: return dtype;
    case ResultType::floating: return floating(dtype);
    case ResultType::boolean: break;
  }
  return Dtype::bool_;
}

// Operands of which the elements are known.
struct Known {
  Array array;
  std::vector<double> values;  // of the broadcast array
};
Known known(const Shape& shape, Range range, Dtype dtype, int seed, Lie lie = Lie::contiguous) {
  std::vector<double> values =
      numeric::numbers(static_cast<size_t>(elements(shape)), range.low, range.high, dtype, seed);
  return {laid_out(array_of(values, shape, dtype), lie), std::move(values)};
}
// Of an array of `shape` as it looks when it is broadcast.
Known stretched(const Known& from, const Shape& shape) {
  return {from.array, values_of(broadcast_to(from.array, shape))};
}

// Results, and what they should be: all are built before the first is evaluated, so that their
// kernels are compiled together.
class Expectations {
 public:
  // Operands are dropped once the results are built, so that these take their memory, or kept.
  enum class Operand : uint8_t { dropped, kept };
  explicit Expectations(Operand operands) : operands_(operands) {}

  void add(const Case& c, Dtype dtype, const std::vector<Known>& operands, std::string what) {
    Operands arrays;
    for (const Known& k : operands) arrays.push_back(k.array);
    Expected e{c.apply(arrays), {}, c.ulps, std::string(c.name) + " of " + std::move(what)};
    EXPECT_EQ(e.result.dtype(), result_dtype(c, dtype)) << e.what;
    for (size_t i = 0; i < operands[0].values.size(); ++i) {
      double x[3] = {};
      for (size_t k = 0; k < operands.size(); ++k) x[k] = operands[k].values[i];
      e.values.push_back(c.reference(x, dtype));
    }
    all_.push_back(std::move(e));
    if (operands_ == Operand::kept) kept_.insert(kept_.end(), arrays.begin(), arrays.end());
  }

  void check() {
    std::vector<Array> results;
    for (const Expected& e : all_) results.push_back(e.result);
    eval(results);
    for (const Expected& e : all_) {
      numeric::expect_close(values_of(e.result), e.values, e.result.dtype(), e.ulps, e.what);
    }
    all_.clear();
    kept_.clear();
  }

 private:
  struct Expected {
    Array result;
    std::vector<double> values;
    double ulps;
    std::string what;
  };
  Operand operands_;
  std::vector<Expected> all_;
  Operands kept_;
};
constexpr auto kDropped = Expectations::Operand::dropped;
constexpr auto kKept = Expectations::Operand::kept;

void add_contiguous(Expectations& expectations, const Case& c, Dtype dtype) {
  std::vector<Known> operands;
  for (const Range& range : c.operands) {
    operands.push_back(known({3, 5, 7}, range, dtype, static_cast<int>(operands.size())));
  }
  expectations.add(c, dtype, operands, kernel::to_string(dtype));
}

// Each operand in each layout, beside contiguous ones; then of other shapes.
void add_layouts(Expectations& expectations, const Case& c, Dtype dtype) {
  const Shape shape{5, 3, 4};
  const size_t count = c.operands.size();
  const auto plain = [&](size_t k) {
    return known(shape, c.operands[k], dtype, static_cast<int>(k));
  };
  const auto add = [&](size_t special, const Known& as, const std::string& what) {
    std::vector<Known> operands;
    for (size_t k = 0; k < count; ++k) operands.push_back(k == special ? as : plain(k));
    expectations.add(c, dtype, operands,
                     std::string(kernel::to_string(dtype)) + ", operand " +
                         std::to_string(special) + " " + what);
  };
  for (size_t special = 0; special < count; ++special) {
    for (const Lie lie : kLies) {
      add(special, known(shape, c.operands[special], dtype, 7, lie), to_string(lie));
    }
    if (count == 1) continue;
    for (const Shape& small : {Shape{4}, Shape{3, 1}, Shape{5, 1, 4}, Shape{1, 1, 1}, Shape{}}) {
      add(special, stretched(known(small, c.operands[special], dtype, 5), shape),
          "of shape " + to_string(small));
    }
  }
  for (const Shape& whole : {Shape{}, Shape{1}, Shape{0}, Shape{2, 0, 3}, Shape{1031}}) {
    std::vector<Known> operands;
    for (size_t k = 0; k < count; ++k) {
      operands.push_back(known(whole, c.operands[k], dtype, static_cast<int>(k)));
    }
    expectations.add(c, dtype, operands, "operands of shape " + to_string(whole));
  }
}

// A test for each dtype: each needs a kernel for each operation.
class ElementwiseOf : public ::testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(CommonDtypes, ElementwiseOf,
                         ::testing::Values(float32, float16, bfloat16, int32, bool_),
                         [](const auto& param) { return kernel::to_string(param.param); });

TEST_P(ElementwiseOf, every_operation_is_as_the_reference_says) {
  Expectations expectations(kKept);
  for (const Case& c : cases()) add_contiguous(expectations, c, GetParam());
  expectations.check();
}

TEST(Elementwise, operands_may_lie_in_any_way_and_are_broadcast) {
  for (const auto operands : {kKept, kDropped}) {
    Expectations expectations(operands);
    for (const Case& c : cases()) {
      // Of each number of operands one; all of them at night.
      const std::string_view name = c.name;
      if (name == "subtract" || name == "less" || name == "where" || name == "square") {
        add_layouts(expectations, c, float32);
      }
    }
    expectations.check();
  }
}

TEST(Elementwise, results_in_the_memory_of_an_operand_are_the_same) {
  Expectations expectations(kDropped);
  const uint64_t before = stats().donated;
  uint64_t expected = 0;
  for (const Case& c : cases()) {
    add_contiguous(expectations, c, float32);
    if (result_dtype(c, float32) == float32) ++expected;
  }
  expectations.check();
  EXPECT_EQ(stats().donated - before, expected);
}

TEST(Elementwise, layouts_of_up_to_eight_axes_are_walked_right) {
  // Every other element of each axis: no two axes walk as one.
  for (size_t rank = 1; rank <= 8; ++rank) {
    const Shape shape = Dims::filled(rank, 4);
    std::vector<double> values;
    for (int64_t i = 0; i < elements(shape); ++i)
      values.push_back(static_cast<double>(1 + i % 1021));
    const Array x = slice(array_of(values, shape, float32),
                          std::vector<Slice>(rank, Slice{.start = 1, .step = 2}));
    const std::vector<double> elements_of_x = values_of(x);
    std::vector<double> expected;
    for (const double v : elements_of_x) expected.push_back(v + v * v);
    EXPECT_EQ(values_of(x + square(x)), expected) << rank;
  }
}

TEST(Elementwise, operands_of_several_dtypes_meet_in_the_promoted_one) {
  const Array f16({Float16(1.5F), Float16(-2.0F)}, {2});
  const Array bf16({BFloat16(0.5F), BFloat16(3.0F)}, {2});
  const Array i32({7, -7}, {2});
  const Array u8({uint8_t{200}, uint8_t{3}}, {2});
  const Array i8({int8_t{-100}, int8_t{100}}, {2});
  const Array truth({true, false}, {2});
  EXPECT_EQ((f16 + bf16).dtype(), float32);
  EXPECT_EQ((f16 * i32).dtype(), float16);
  EXPECT_EQ((u8 - i8).dtype(), int16);
  EXPECT_EQ(values_of(f16 + bf16), (std::vector<double>{2, 1}));
  EXPECT_EQ(values_of(f16 * i32), (std::vector<double>{10.5, 14}));
  EXPECT_EQ(values_of(u8 - i8), (std::vector<double>{300, -97}));
  EXPECT_EQ(values_of(u8 < i8), (std::vector<double>{0, 1}));
  EXPECT_EQ(values_of(i32 / u8),
            (std::vector<double>{double(7.0F / 200.0F), double(-7.0F / 3.0F)}));
  EXPECT_EQ(values_of(where(truth, f16, i32)), (std::vector<double>{1.5, -7}));
}

TEST(NumericNightly, every_operation_for_all_dtypes_and_layouts) {
  for (const Case& c : cases()) {
    for (const auto operands : {kKept, kDropped}) {
      Expectations expectations(operands);
      for (unsigned d = 0; d < kernel::kDtypes; ++d) {
        const auto dtype = static_cast<Dtype>(d);
        add_contiguous(expectations, c, dtype);
        add_layouts(expectations, c, dtype);
      }
      expectations.check();
    }
  }
}

TEST(NumericNightly, every_pair_of_dtypes_is_added_and_compared) {
  const std::vector<double> a{0, 1, 5, 100};
  const std::vector<double> b{1, 1, 3, 101};
  std::vector<Array> sums;
  std::vector<Array> orders;
  std::vector<std::pair<Dtype, Dtype>> pairs;
  for (unsigned i = 0; i < kernel::kDtypes; ++i) {
    for (unsigned k = 0; k < kernel::kDtypes; ++k) {
      const auto& [x, y] = pairs.emplace_back(static_cast<Dtype>(i), static_cast<Dtype>(k));
      sums.push_back(array_of(a, {4}, x) + array_of(b, {4}, y));
      orders.push_back(array_of(a, {4}, x) < array_of(b, {4}, y));
    }
  }
  eval(sums);
  eval(orders);
  for (size_t p = 0; p < pairs.size(); ++p) {
    const auto& [x, y] = pairs[p];
    std::vector<double> sum;
    std::vector<double> order;
    for (size_t i = 0; i < a.size(); ++i) {
      const double u = numeric::rounded(a[i], x);
      const double v = numeric::rounded(b[i], y);
      sum.push_back(numeric::rounded(u + v, promote(x, y)));
      order.push_back(u < v ? 1 : 0);
    }
    EXPECT_EQ(values_of(sums[p]), sum) << to_string(x) << " " << to_string(y);
    EXPECT_EQ(values_of(orders[p]), order) << to_string(x) << " " << to_string(y);
  }
}

}  // namespace
}  // namespace holdfast
