// Names that public kernels use beside the first ones: each gives what Metal's documentation says,
// on the device of family_of_bodies(); and NVRTC compiles all of it.

#include <limits>

#include "holdfast/kernel/language_rig_test.h"
#include "holdfast/kernel/names_of_metal_test.h"

namespace holdfast::kernel {
namespace {

struct LanguageNames : LanguageTest, ::testing::WithParamInterface<NamedBody> {};

TEST_P(LanguageNames, give_what_metal_gives) {
  const NamedBody& body = GetParam();
  const std::vector<float> y = run({.body = body.body,
                                    .header = body.header,
                                    .x = body.x,
                                    .outputs = body.y.size(),
                                    .dtype = body.dtype,
                                    .grid = {body.threads, 1, 1},
                                    .threadgroup = {body.group, 1, 1}});
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y[i], body.y[i], 1e-5 * (1 + std::abs(body.y[i]))) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Bodies, LanguageNames, ::testing::ValuesIn(bodies_of_names()),
                         [](const auto& of) { return of.param.name; });

struct LanguageRelaxedMath : LanguageTest {};

TEST_F(LanguageRelaxedMath, keeps_infinities_and_nan) {
  const std::vector<float> y = run({.body = R"(
uint i = thread_position_in_grid.x;
float v = x[0] / x[1];
y[0] = isnan(x[1] / x[1]);
y[1] = isinf(v);
y[2] = x[2] / 3.0f + x[2];
y[3] = x[3] == x[3];
)",
                                    .x = {1, 0, 6, std::numeric_limits<float>::quiet_NaN()},
                                    .outputs = 4,
                                    .grid = {1, 1, 1},
                                    .math = MathMode::relaxed});
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_NEAR(y[2], 8, 1e-5);
  EXPECT_EQ(y[3], 0);
}

}  // namespace
}  // namespace holdfast::kernel
