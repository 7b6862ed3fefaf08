#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/fast.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::Lie;
using numeric::values_of;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class RopeTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, RopeTest, both_styles(), style_name);

// `offsets`: one, or one for each of the batch.
void check_rope(const Shape& shape, int64_t dims, const fast::Rope& how,
                const std::vector<int32_t>& offsets, bool as_array, Dtype dtype, Lie lie) {
  const std::vector<double> x =
      numeric::numbers(static_cast<size_t>(elements(shape)), -2, 2, dtype);
  std::vector<double> freqs;
  if (how.freqs) freqs = values_of(*how.freqs);
  const int64_t width = shape.back();
  const int64_t positions = shape[shape.size() - 2];
  const int64_t per_batch = elements(shape) / shape[0] / positions / width;
  std::vector<double> wanted = x;
  for (int64_t row = 0; row < elements(shape) / width; ++row) {
    const auto batch = static_cast<size_t>(row / positions / per_batch);
    const double position =
        (static_cast<double>(row % positions) + offsets[offsets.size() == 1 ? 0 : batch]) *
        static_cast<double>(how.scale);
    for (int64_t i = 0; i < dims / 2; ++i) {
      const double frequency =
          how.freqs ? 1 / freqs[static_cast<size_t>(i)]
                    : std::pow(static_cast<double>(how.base),
                               -2 * static_cast<double>(i) / static_cast<double>(dims));
      const double c = std::cos(position * frequency);
      const double s = std::sin(position * frequency);
      const auto a = static_cast<size_t>(row * width + (how.traditional ? 2 * i : i));
      const size_t b = a + static_cast<size_t>(how.traditional ? 1 : dims / 2);
      wanted[a] = x[a] * c - x[b] * s;
      wanted[b] = x[a] * s + x[b] * c;
    }
  }
  const Array in = numeric::laid_out(array_of(x, shape, dtype), lie);
  const Array y =
      as_array ? fast::rope(in, dims, how, Array(offsets, {static_cast<int64_t>(offsets.size())}))
               : fast::rope(in, dims, how, offsets[0]);
  ASSERT_EQ(y.dtype(), dtype);
  const std::vector<double> got = values_of(y);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    // Angles are rounded, and large ones by more.
    ASSERT_NEAR(got[i], wanted[i], 4 * numeric::half_ulp(dtype) + 4e-5)
        << to_string(shape) << numeric::to_string(lie) << " " << i;
  }
}

TEST_P(RopeTest, pairs_turn_by_their_positions) {
  for (const bool traditional : {false, true}) {
    fast::Rope how{.traditional = traditional};
    check_rope({2, 3, 5, 8}, 8, how, {0}, false, float32, Lie::contiguous);
    check_rope({2, 3, 5, 91}, 84, how, {7}, false, float32, Lie::transposed);
    check_rope({2, 1, 3, 4, 6}, 4, how, {3, 100}, true, float32, Lie::spread);
    how.scale = 0.5F;
    how.base = 100;
    check_rope({2, 3, 5, 8}, 8, how, {9}, true, float32, Lie::reversed);
    how.freqs = array_of({1, 3, 10, 2}, {4}, float32);
    check_rope({2, 3, 5, 9}, 8, how, {-2}, false, float32, Lie::offset);
  }
  check_rope({2, 4, 6}, 4, {}, {1}, false, float32, Lie::contiguous);
}

TEST(Rope, all_floats_turn) {
  for (const Dtype dtype : {float16, bfloat16, float64}) {
    check_rope({1, 2, 4, 16}, 16, {}, {5}, false, dtype, Lie::contiguous);
  }
}

TEST(Rope, empty_arrays_are_turned_and_what_does_not_fit_is_refused) {
  EXPECT_TRUE(values_of(fast::rope(zeros({2, 0, 4}), 4)).empty());
  const Array x = zeros({2, 3, 4});
  EXPECT_THAT([&] { (void)fast::rope(x, 3); },
              ThrowsMessage<UsageError>(HasSubstr("3 elements of rows of 4")));
  EXPECT_THROW((void)fast::rope(x, 6), UsageError);
  EXPECT_THROW((void)fast::rope(x, 0), UsageError);
  EXPECT_THROW((void)fast::rope(zeros({3, 4}), 4), UsageError);
  EXPECT_THROW((void)fast::rope(zeros({2, 3, 4}, int32), 4), UsageError);
  EXPECT_THROW((void)fast::rope(x, 4, {}, 1.5), UsageError);
  EXPECT_THROW((void)fast::rope(x, 4, {}, zeros({2})), UsageError);
  EXPECT_THROW((void)fast::rope(x, 4, {}, zeros({3}, int32)), UsageError);
  EXPECT_THROW((void)fast::rope(x, 4, {.freqs = zeros({4})}), UsageError);
}

}  // namespace
}  // namespace holdfast
