#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class AttentionTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, AttentionTest, both_styles(), style_name);

struct AttentionSizes {
  int64_t batch = 2;
  int64_t heads = 4;
  int64_t key_heads = 2;
  int64_t queries = 3;
  int64_t keys = 10;
  int64_t width = 16;
  int64_t values = 16;
};
enum class MaskOf : uint8_t { none, boolean, added };

// A mask of which every row has a key, for all heads together.
std::vector<double> mask_values(const AttentionSizes& s, MaskOf kind) {
  std::vector<double> mask(static_cast<size_t>(s.batch * s.queries * s.keys));
  for (size_t i = 0; i < mask.size(); ++i) {
    const bool allowed = i % static_cast<size_t>(s.keys) == 0 || i * 7 % 5 < 3;
    mask[i] = kind == MaskOf::boolean ? (allowed ? 1 : 0)
              : allowed               ? 0.25 * static_cast<double>(i % 4)
                                      : -std::numeric_limits<double>::infinity();
  }
  return mask;
}

void check_attention(const AttentionSizes& s, MaskOf kind, bool causal, Dtype dtype,
                     Lie lie = Lie::contiguous) {
  const Shape q_shape{s.batch, s.heads, s.queries, s.width};
  const Shape k_shape{s.batch, s.key_heads, s.keys, s.width};
  const Shape v_shape{s.batch, s.key_heads, s.keys, s.values};
  const auto numbers = [&](const Shape& shape, int seed) {
    return numeric::numbers(static_cast<size_t>(elements(shape)), -1, 1, dtype, seed);
  };
  const std::vector<double> q = numbers(q_shape, 0);
  const std::vector<double> k = numbers(k_shape, 1);
  const std::vector<double> v = numbers(v_shape, 2);
  const std::vector<double> mask = mask_values(s, kind);
  const float scale = 0.5F;
  std::vector<double> wanted;
  for (int64_t row = 0; row < s.batch * s.heads * s.queries; ++row) {
    const int64_t t = row % s.queries;
    const int64_t head = row / s.queries % s.heads;
    const int64_t batch = row / s.queries / s.heads;
    const int64_t kv = batch * s.key_heads + head / (s.heads / s.key_heads);
    std::vector<double> sums(static_cast<size_t>(s.values));
    double total = 0;
    for (int64_t key = 0; key < s.keys; ++key) {
      if (causal && key > t + s.keys - s.queries) continue;
      const double m = mask[static_cast<size_t>((batch * s.queries + t) * s.keys + key)];
      if (kind == MaskOf::boolean && m == 0) continue;
      double product = 0;
      for (int64_t i = 0; i < s.width; ++i) {
        product += q[static_cast<size_t>(row * s.width + i)] *
                   k[static_cast<size_t>((kv * s.keys + key) * s.width + i)];
      }
      const double weight =
          std::exp(product * static_cast<double>(scale) + (kind == MaskOf::added ? m : 0));
      total += weight;
      for (int64_t i = 0; i < s.values; ++i) {
        sums[static_cast<size_t>(i)] +=
            weight * v[static_cast<size_t>((kv * s.keys + key) * s.values + i)];
      }
    }
    for (const double sum : sums) wanted.push_back(total == 0 ? 0 : sum / total);
  }
  fast::AttentionMask how{.causal = causal};
  if (kind != MaskOf::none) {
    how.array =
        array_of(mask, {s.batch, 1, s.queries, s.keys}, kind == MaskOf::boolean ? bool_ : dtype);
  }
  const Array y = fast::scaled_dot_product_attention(
      numeric::laid_out(array_of(q, q_shape, dtype), lie),
      numeric::laid_out(array_of(k, k_shape, dtype), lie),
      numeric::laid_out(array_of(v, v_shape, dtype), lie), scale, how);
  ASSERT_EQ(y.shape(), (Shape{s.batch, s.heads, s.queries, s.values}));
  ASSERT_EQ(y.dtype(), dtype);
  const std::vector<double> got = values_of(y);
  // Products of many queries are rounded to the dtype, and so are their weights.
  const double allowed = 2e-6 + 6 * numeric::half_ulp(dtype);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], allowed)
        << s.queries << " queries, " << s.keys << " keys, " << i;
  }
}

TEST_P(AttentionTest, few_queries_agree_with_double_precision) {
  for (const MaskOf mask : {MaskOf::none, MaskOf::boolean, MaskOf::added}) {
    check_attention({}, mask, false, float32);
    check_attention({}, mask, true, float32, Lie::transposed);
  }
  check_attention({.queries = 1, .keys = 3}, MaskOf::none, true, float32, Lie::offset);
  check_attention({.queries = 1, .width = 5, .values = 33}, MaskOf::none, false, float32);
}

TEST_P(AttentionTest, many_queries_agree_with_double_precision) {
  for (const MaskOf mask : {MaskOf::none, MaskOf::boolean, MaskOf::added}) {
    check_attention({.queries = 20, .keys = 24}, mask, false, float32);
    check_attention({.queries = 20, .keys = 24}, mask, true, float32);
  }
  check_attention({.queries = 9, .keys = 300}, MaskOf::none, true, float32);
}

TEST_P(AttentionTest, many_keys_are_cut_into_pieces) {
  for (const int64_t keys : {511, 512, 1300}) {
    check_attention({.batch = 1, .queries = 1, .keys = keys}, MaskOf::none, false, float32);
  }
  check_attention({.batch = 1, .heads = 2, .queries = 2, .keys = 1300}, MaskOf::added, true,
                  float32);
}

TEST(Attention, two_byte_floats_attend) {
  check_attention({}, MaskOf::boolean, true, float16);
  check_attention({.queries = 12, .keys = 12}, MaskOf::none, true, bfloat16);
}

TEST_P(AttentionTest, nightly_all_floats_masks_and_layouts) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64}) {
    for (const Lie lie : numeric::kLies) {
      for (const MaskOf mask : {MaskOf::none, MaskOf::boolean, MaskOf::added}) {
        check_attention({}, mask, true, dtype, lie);
        check_attention({.queries = 12, .keys = 12, .values = 40}, mask, false, dtype, lie);
      }
    }
  }
}

TEST_P(AttentionTest, a_query_that_may_attend_to_nothing_gives_zeros) {
  for (const int64_t queries : {2, 20}) {
    const Array q = ones({1, 2, queries, 16});
    const Array k = ones({1, 1, queries, 16});
    const Array nothing = zeros({queries}, bool_);
    EXPECT_THAT(values_of(fast::scaled_dot_product_attention(q, k, k, 1, {.array = nothing})),
                Each(0))
        << queries;
    // The first queries stand before all keys.
    const Array one = slice(k, {{}, {}, {.stop = 1}});
    const std::vector<double> got =
        values_of(fast::scaled_dot_product_attention(q, one, one, 1, {.causal = true}));
    EXPECT_EQ(got.front(), 0) << queries;
    EXPECT_EQ(got.back(), 1) << queries;
  }
  const Array q = ones({1, 1, 2, 16});
  const Array none = zeros({1, 1, 0, 16});
  EXPECT_THAT(values_of(fast::scaled_dot_product_attention(q, none, none, 1)), Each(0));
}

TEST_P(AttentionTest, one_nan_reaches_its_own_queries_alone) {
  std::vector<double> values(2 * 3 * 16, 1);
  values[0] = std::nan("");
  const Array q = array_of(values, {1, 2, 3, 16}, float32);
  const Array k = ones({1, 2, 5, 16});
  const std::vector<double> got = values_of(fast::scaled_dot_product_attention(q, k, k, 1));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i < 16) << i;
}

TEST(Attention, dtypes_promote_and_empty_arrays_attend) {
  const Array q = ones({1, 2, 3, 4}, float16);
  const Array k = ones({1, 1, 5, 4}, float32);
  EXPECT_EQ(fast::scaled_dot_product_attention(q, k, k, 1).dtype(), float32);
  const Array none = zeros({0, 2, 3, 4});
  EXPECT_TRUE(values_of(fast::scaled_dot_product_attention(none, none, none, 1)).empty());
}

TEST(Attention, what_does_not_fit_is_refused) {
  const Array q = ones({1, 4, 3, 8});
  const auto attend = [](const Array& a, const Array& b, const Array& c,
                         const fast::AttentionMask& mask = {}) {
    (void)fast::scaled_dot_product_attention(a, b, c, 1, mask);
  };
  EXPECT_THAT(
      [&] {
        attend(q, ones({1, 3, 3, 8}), ones({1, 3, 3, 8}));
      },
      ThrowsMessage<UsageError>(HasSubstr("must be a multiple")));
  EXPECT_THAT(
      [&] {
        attend(ones({3, 8}), q, q);
      },
      ThrowsMessage<UsageError>(HasSubstr("give four axes")));
  EXPECT_THROW(attend(q, ones({2, 4, 3, 8}), q), UsageError);
  EXPECT_THROW(attend(q, ones({1, 4, 3, 7}), q), UsageError);
  EXPECT_THROW(attend(q, q, ones({1, 4, 2, 8})), UsageError);
  EXPECT_THROW(attend(q, q, ones({1, 2, 3, 8})), UsageError);
  EXPECT_THROW(attend(q, q, ones({1, 4, 3, 8}, int32)), UsageError);
  EXPECT_THAT(
      [&] {
        attend(q, q, q, {.array = ones({2, 3})});
      },
      ThrowsMessage<UsageError>(HasSubstr("a mask of shape (2, 3) cannot be broadcast")));
  EXPECT_THAT(
      [&] {
        attend(q, q, q, {.array = ones({3, 3}, float64)});
      },
      ThrowsMessage<UsageError>(HasSubstr("a mask of float64")));
}

}  // namespace
}  // namespace holdfast
