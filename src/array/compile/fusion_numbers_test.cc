// Random functions compute the same with and without fusion.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/env.h"
#include "holdfast/compile.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"
#include "holdfast/testing/effort.h"

namespace holdfast {
namespace {

using Function = std::function<std::vector<Array>(const std::vector<Array>&)>;

// A function of elementwise operations and reductions, made of a seed.
class RandomFunction {
 public:
  explicit RandomFunction(uint64_t seed) : seed_(seed) {
    std::mt19937_64 random(seed);
    rows_ = 1 + static_cast<int64_t>(random() % 7);
    constexpr int64_t kLengths[] = {1, 3, 16, 63, 64, 65, 130, 200, 1000};
    length_ = kLengths[random() % std::size(kLengths)];
    constexpr Dtype kDtypes[] = {float32, float32, float16, bfloat16};
    dtype_ = kDtypes[random() % std::size(kDtypes)];
  }

  std::vector<Array> arguments(int seed) const {
    const auto of = [&](const Shape& shape, Dtype dtype, int which) {
      const auto size = static_cast<size_t>(elements(shape));
      return numeric::array_of(numeric::numbers(size, -4, 4, dtype, 7 * seed + which), shape,
                               dtype);
    };
    return {of({rows_, length_}, dtype_, 0),
            of({rows_, length_}, float32, 1),
            of({length_}, dtype_, 2),
            of({rows_, 1}, dtype_, 3),
            of({}, float32, 4),
            of({rows_, length_}, int32, 5),
            numeric::laid_out(of({rows_, length_}, dtype_, 6), numeric::Lie::spread)};
  }

  std::vector<Array> operator()(const std::vector<Array>& arguments) const {
    std::mt19937_64 random(seed_ + 1);
    std::vector<Array> known = arguments;
    const auto any = [&] {
      // Rather the last ones, so that chains are long.
      const size_t n = known.size();
      return known[random() % 3 == 0 ? random() % n : n - 1 - random() % std::min<size_t>(n, 4)];
    };
    const auto number = [&] { return static_cast<double>(random() % 17) / 4 - 2; };
    const size_t count = 4 + random() % 14;
    for (size_t i = 0; i < count; ++i) {
      const Array a = any();
      switch (random() % 22) {
        case 0: known.push_back(a + any()); break;
        case 1: known.push_back(a - number()); break;
        case 2: known.push_back(a * any()); break;
        case 3: known.push_back(a * any() + any()); break;  // which nobody may contract
        case 4: known.push_back(a / (abs(any()) + 1)); break;
        case 5: known.push_back(maximum(a, any())); break;
        case 6: known.push_back(minimum(a, number())); break;
        case 7: known.push_back(where(a > any(), a, number())); break;
        case 8: known.push_back(where(any() < 0, any(), a)); break;
        case 9: known.push_back(astype(a, float16)); break;
        case 10: known.push_back(astype(a, bfloat16)); break;
        case 11: known.push_back(astype(clip(a, -100, 100), int32)); break;
        case 12: known.push_back(astype(a, float32)); break;
        case 13: known.push_back(exp(minimum(a, 10))); break;
        case 14: known.push_back(tanh(a)); break;
        case 15: known.push_back(rsqrt(abs(a) + 0.5)); break;
        case 16: known.push_back(sigmoid(a)); break;
        case 17: known.push_back(floor_divide(a, 3)); break;
        case 18: known.push_back(square(a) - a); break;
        case 19: known.push_back(logical_not(a)); break;
        default:
          if (a.ndim() == 0) break;
          known.push_back(reduced(a, random()));
      }
    }
    std::vector<Array> results{known.back()};
    for (size_t i = arguments.size(); i + 1 < known.size(); ++i) {
      if (random() % 4 == 0) results.push_back(known[i]);
    }
    return results;
  }

  std::string describe() const {
    return fmt::format("seed {}: ({}, {}) of {}", seed_, rows_, length_, kernel::to_string(dtype_));
  }

 private:
  // Of small integers, so that sums have no rounding whatever their order.
  static Array reduced(const Array& a, uint64_t which) {
    const Array exact = floor(astype(clip(a, -8, 8), which % 5 == 0 ? float16 : float32)) + 0.0;
    // Comparing with itself is false for NaN, which a sum would spread over the row.
    const Array numbers = where(equal(exact, exact), exact, 1);
    const Reduce last{.axes = {-1}, .keep_dims = which % 3 != 0};
    const Array made = [&] {
      switch (which / 8 % 5) {
        case 0: return sum(numbers, last);
        case 1: return mean(numbers, last);
        case 2: return max(a + 0.0, last);  // of zeros of either sign, any would do
        case 3: return min(numbers, last);
        default: return prod(sign(numbers), last);
      }
    }();
    return last.keep_dims ? made : expand_dims(made, {-1});
  }

  uint64_t seed_;
  int64_t rows_;
  int64_t length_;
  Dtype dtype_;
};

void expect_same(const std::vector<Array>& got, const std::vector<Array>& wanted,
                 const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), wanted[i].shape()) << what;
    ASSERT_EQ(got[i].dtype(), wanted[i].dtype()) << what;
    const std::vector<double> a = numeric::values_of(got[i]);
    const std::vector<double> b = numeric::values_of(wanted[i]);
    for (size_t k = 0; k < a.size(); ++k) {
      if (std::isnan(a[k]) && std::isnan(b[k])) continue;
      ASSERT_TRUE(a[k] == b[k] && std::signbit(a[k]) == std::signbit(b[k]))
          << what << ": element " << k << " of result " << i << " is " << a[k] << " and should be "
          << b[k];
    }
  }
}

class FusedNumbers : public BothStyles {
 protected:
  static void expect_same_of(uint64_t seed) {
    const RandomFunction f(seed);
    const auto fused = compile([&](const std::vector<Array>& x) { return f(x); });
    const auto apart = compile([&](const std::vector<Array>& x) { return f(x); }, {.fuse = false});
    for (int round = 0; round < 2; ++round) {
      const std::vector<Array> arguments = f.arguments(round);
      const std::vector<Array> eager = f(arguments);
      expect_same(apart(arguments), eager, f.describe() + ", not fused");
      // Only temporary arrays can be taken.
      std::vector<Array> copies = f.arguments(round);
      for (Array& copy : copies) copy = copy + 0;
      expect_same(fused(copies), eager, f.describe() + ", fused");
    }
  }
};

TEST_P(FusedNumbers, are_the_same_bits) {
  for (uint64_t seed = 0; seed < testing::shortened(uint64_t{8}); ++seed) expect_same_of(seed);
}

TEST_P(FusedNumbers, are_the_same_bits_nightly) {
  const uint64_t first = env::number("HOLDFAST_SEED").value_or(std::random_device()());
  for (uint64_t i = 0; i < env::number("HOLDFAST_SCHEDULES").value_or(300); ++i) {
    expect_same_of(first + i);
    if (HasFatalFailure()) return;
  }
}

TEST_P(FusedNumbers, lose_the_sign_of_zero_as_integers) {
  const Array x = full({100}, -0.25F, float32);
  for (const Dtype dtype : {float16, bfloat16, float32}) {
    const auto through = [&](const Array& a) {
      return std::vector<Array>{astype(astype(a, int32), dtype), astype(a, int32) * 0.5F};
    };
    expect_same(compile(through)(x), through(x), kernel::to_string(dtype));
  }
}

// What people write, with sums that are rounded.
TEST_P(FusedNumbers, of_rows_keep_their_tolerance) {
  const auto rms_norm = [](const Array& x, const Array& w) {
    return x * rsqrt(mean(square(x), {.axes = {-1}, .keep_dims = true}) + 1e-5F) * w;
  };
  const auto layer_norm = [](const Array& x, const Array& w) {
    const Array centred = x - mean(x, {.axes = {-1}, .keep_dims = true});
    return centred * rsqrt(mean(square(centred), {.axes = {-1}, .keep_dims = true}) + 1e-5F) + w;
  };
  const auto weights = [](const Array& x, const Array& w) { return softmax(x * 0.5F + w) * 2.0F; };
  const auto cross_entropy = [](const Array& x, const Array& w) {
    const Array largest = max(x, {.axes = {-1}, .keep_dims = true});
    return log(sum(exp(x - largest), {.axes = {-1}, .keep_dims = true})) + largest - x * w;
  };
  using Body = std::function<Array(const Array&, const Array&)>;
  for (const Body& body : {Body(rms_norm), Body(layer_norm), Body(weights), Body(cross_entropy)}) {
    const auto fused = compile(body);
    for (const auto& [rows, length] : {std::pair{5, 17}, {2, 300}, {70, 5000}}) {
      for (const Dtype dtype : {float32, float16}) {
        const auto size = static_cast<size_t>(rows) * static_cast<size_t>(length);
        const Array x =
            numeric::array_of(numeric::numbers(size, -3, 3, dtype), {rows, length}, dtype);
        const Array w = numeric::array_of(
            numeric::numbers(static_cast<size_t>(length), -2, 2, dtype, 1), {length}, dtype);
        // Means and sums are rounded to the dtype on the way.
        const double tolerance = 64 * numeric::half_ulp(dtype);
        const std::vector<double> got = numeric::values_of(fused(x, w));
        const std::vector<double> wanted = numeric::values_of(body(x, w));
        for (size_t i = 0; i < wanted.size(); ++i) {
          ASSERT_NEAR(got[i], wanted[i], tolerance * (1 + std::abs(wanted[i])))
              << rows << " rows of " << length;
        }
      }
    }
  }
}

// Rows whose elements are all minus infinity, NaN, and infinities that meet.
TEST_P(FusedNumbers, of_rows_treat_what_is_not_finite_as_the_operations_do) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(size_t{5} * 100, 1.0F);
  for (size_t i = 0; i < 100; ++i) values[i] = -kInfinity;
  values[150] = kInfinity;
  values[250] = std::nanf("");
  values[350] = -kInfinity;
  values[351] = kInfinity;
  const Array x(values, {5, 100});
  const auto body = [](const Array& a) {
    const Array b = a * 2.0F;
    const Reduce last{.axes = {-1}, .keep_dims = true};
    return std::vector<Array>{softmax(b) * 2.0F, sum(b, last), max(b, last), min(b, last),
                              b - max(b, last)};
  };
  expect_same(compile(body)(x), body(x), "not finite");
}

INSTANTIATE_TEST_SUITE_P(Styles, FusedNumbers, both_styles(), style_name);

}  // namespace
}  // namespace holdfast
