// Inverse trigonometric and hyperbolic functions.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::values_of;

struct InverseFunction {
  const char* name;
  Array (*apply)(const Array&, const On&);
  double (*reference)(double);
  double low;
  double high;
};
constexpr InverseFunction kInverse[] = {
    {"arcsin", arcsin, std::asin, -1, 1},    {"arccos", arccos, std::acos, -1, 1},
    {"arctan", arctan, std::atan, -9, 9},    {"arcsinh", arcsinh, std::asinh, -9, 9},
    {"arccosh", arccosh, std::acosh, 1, 30}, {"arctanh", arctanh, std::atanh, -0.99, 0.99}};

void check_inverse(Dtype dtype) {
  std::vector<Array> results;
  std::vector<std::vector<double>> wanted;
  for (const InverseFunction& f : kInverse) {
    const std::vector<double> x = numeric::numbers(100, f.low, f.high, dtype);
    results.push_back(f.apply(array_of(x, {4, 25}, dtype), {}));
    EXPECT_EQ(results.back().dtype(), floating(dtype)) << f.name;
    std::vector<double>& values = wanted.emplace_back();
    for (const double v : x) values.push_back(f.reference(v));
  }
  eval(results);
  for (size_t i = 0; i < results.size(); ++i) {
    numeric::expect_close(values_of(results[i]), wanted[i], results[i].dtype(), 4,
                          kInverse[i].name + std::string(" of ") + to_string(dtype));
  }
}

TEST(Trigonometry, inverse_functions_are_as_the_reference_says) { check_inverse(float32); }

TEST(Trigonometry, nightly_inverse_functions_of_all_dtypes_are_as_the_reference_says) {
  for (unsigned d = 0; d < kernel::kDtypes; ++d) check_inverse(static_cast<Dtype>(d));
}

TEST(Trigonometry, outside_their_domain_inverse_functions_are_nan) {
  for (const auto& f : {arcsin, arccos, arctanh}) {
    const Array outside = f(array_of({-2, 2}, {2}, float32), {});
    for (const double v : values_of(outside)) EXPECT_TRUE(std::isnan(v));
  }
  EXPECT_EQ(values_of(arctanh(array_of({-1, 1}, {2}, float32))),
            (std::vector<double>{-std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::infinity()}));
}

TEST(Trigonometry, arctan2_knows_the_quadrant_of_a_point) {
  const std::vector<double> y{1, 1, -1, -1, 0, 0, 2};
  const std::vector<double> x{1, -1, -1, 1, 1, -1, 0};
  std::vector<double> wanted;
  for (size_t i = 0; i < y.size(); ++i) wanted.push_back(std::atan2(y[i], x[i]));
  const Array angles = arctan2(array_of(y, {7}, float32), array_of(x, {7}, float32));
  numeric::expect_close(values_of(angles), wanted, float32, 4, "arctan2");
  const Array grid = arctan2(array_of({1, 2}, {2, 1}, int32), array_of({1, 3}, {2}, int32));
  EXPECT_EQ(grid.dtype(), float32);
  numeric::expect_close(values_of(grid),
                        {std::atan2(1, 1), std::atan2(1, 3), std::atan2(2, 1), std::atan2(2, 3)},
                        float32, 4, "of integers, broadcast");
}

}  // namespace
}  // namespace holdfast
