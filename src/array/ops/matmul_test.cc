#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"
#include "holdfast/stream.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::Lie;
using numeric::values_of;

class MatmulTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, MatmulTest, both_styles(), style_name);

std::vector<double> some_values(int64_t count, Dtype dtype, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(-2, 2);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) v = numeric::rounded(draw(random), dtype);
  return values;
}

// a [batch, m, k] times b [batch, k, n], and the same of magnitudes; a step of 0 stands for a batch
// of one.
struct Product {
  std::vector<double> values;
  std::vector<double> magnitudes;
};
struct Sizes {
  int64_t batch = 1;
  int64_t m, k, n;
};
Product product_of(const std::vector<double>& a, const std::vector<double>& b, const Sizes& s,
                   bool same_a = false, bool same_b = false) {
  Product result;
  for (int64_t at = 0; at < s.batch; ++at) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        double size = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          const double v = a[static_cast<size_t>(((same_a ? 0 : at) * s.m + i) * s.k + k)] *
                           b[static_cast<size_t>(((same_b ? 0 : at) * s.k + k) * s.n + j)];
          sum += v;
          size += std::abs(v);
        }
        result.values.push_back(sum);
        result.magnitudes.push_back(size);
      }
    }
  }
  return result;
}

// A sum of k products in float32 is off by a rounding for each addition at most, relative to the
// sum of magnitudes; in practice by a few, since they cancel: sqrt(k) is allowed. Then one rounding
// to the dtype.
void expect_product(const Array& got, const Product& wanted, int64_t k, const std::string& what) {
  const std::vector<double> values = values_of(got);
  ASSERT_EQ(values.size(), wanted.values.size()) << what;
  const Dtype dtype = got.dtype();
  const double computed = std::min(numeric::half_ulp(dtype), numeric::half_ulp(float32));
  for (size_t i = 0; i < values.size(); ++i) {
    const double allowed =
        2 * numeric::half_step(dtype) +
        1.001 * numeric::half_ulp(dtype) * std::abs(wanted.values[i]) +
        (2 + std::sqrt(static_cast<double>(k))) * computed * wanted.magnitudes[i];
    ASSERT_LE(std::abs(values[i] - wanted.values[i]), allowed)
        << what << ": element " << i << " is " << values[i] << ", wanted " << wanted.values[i];
  }
}

void check(const Sizes& s, Dtype da, Dtype db, Lie la, Lie lb) {
  const std::vector<double> a = some_values(s.batch * s.m * s.k, da, 1);
  const std::vector<double> b = some_values(s.batch * s.k * s.n, db, 2);
  const bool flat = s.batch == 1;
  const Shape sa = flat ? Shape{s.m, s.k} : Shape{s.batch, s.m, s.k};
  const Shape sb = flat ? Shape{s.k, s.n} : Shape{s.batch, s.k, s.n};
  const Array got = matmul(numeric::laid_out(array_of(a, sa, da), la),
                           numeric::laid_out(array_of(b, sb, db), lb));
  ASSERT_EQ(got.shape(), flat ? (Shape{s.m, s.n}) : (Shape{s.batch, s.m, s.n}));
  ASSERT_EQ(got.dtype(), promote(da, db));
  expect_product(got, product_of(a, b, s), s.k,
                 std::string(to_string(da)) + to_string(sa) + numeric::to_string(la) + " x " +
                     to_string(db) + to_string(sb) + numeric::to_string(lb));
}

// Small and large ones, one row, one column, edges of tiles.
const std::vector<Sizes> kSizes{{.m = 1, .k = 1, .n = 1},    {.m = 3, .k = 5, .n = 2},
                                {.m = 1, .k = 70, .n = 131}, {.m = 131, .k = 70, .n = 1},
                                {.m = 2, .k = 33, .n = 200}, {.m = 8, .k = 64, .n = 64},
                                {.m = 33, .k = 41, .n = 65}, {.m = 50, .k = 129, .n = 31}};

TEST_P(MatmulTest, agrees_with_double_precision) {
  for (const Dtype dtype : {float32, float16, bfloat16}) {
    for (const Sizes& s : kSizes) {
      check(s, dtype, dtype, Lie::contiguous, Lie::contiguous);
      check(s, dtype, dtype, Lie::transposed, Lie::transposed);
    }
  }
  check({.batch = 3, .m = 20, .k = 50, .n = 40}, float32, float32, Lie::contiguous, Lie::reversed);
}

// Larger than what one thread has of the result, and of the depth at a time.
TEST_P(MatmulTest, products_of_several_tiles_agree_with_double_precision) {
  for (const Sizes& s : {Sizes{.m = 97, .k = 300, .n = 129}, Sizes{.m = 13, .k = 513, .n = 260},
                         Sizes{.m = 200, .k = 16, .n = 33}}) {
    check(s, float32, float32, Lie::contiguous, Lie::contiguous);
    check(s, float32, float32, Lie::transposed, Lie::transposed);
    check(s, float16, float16, Lie::offset, Lie::contiguous);
  }
  check({.batch = 2, .m = 100, .k = 257, .n = 130}, float64, float64, Lie::contiguous,
        Lie::transposed);
}

TEST_P(MatmulTest, nightly_all_dtypes_and_layouts_agree_with_double_precision) {
  std::vector<Sizes> sizes = kSizes;
  sizes.push_back({.batch = 3, .m = 2, .k = 7, .n = 5});
  sizes.push_back({.batch = 2, .m = 34, .k = 65, .n = 40});
  for (const Dtype da : {float32, float16, bfloat16, float64}) {
    for (const Dtype db : {float32, float16, bfloat16, float64}) {
      for (const Sizes& s : sizes) {
        for (const Lie la : numeric::kLies) {
          for (const Lie lb : numeric::kLies) check(s, da, db, la, lb);
        }
      }
    }
  }
}

TEST_P(MatmulTest, batches_are_broadcast) {
  for (const Sizes& s :
       {Sizes{.batch = 6, .m = 3, .k = 4, .n = 5}, Sizes{.batch = 6, .m = 33, .k = 40, .n = 35}}) {
    const std::vector<double> many = some_values(6 * s.m * s.k, float32, 1);
    const std::vector<double> one = some_values(s.k * s.n, float32, 2);
    const Array a = array_of(many, {2, 3, s.m, s.k}, float32);
    const Array b = array_of(one, {s.k, s.n}, float32);
    const Product right = product_of(many, one, s, false, true);
    EXPECT_EQ(matmul(a, b).shape(), (Shape{2, 3, s.m, s.n}));
    expect_product(matmul(a, b), right, s.k, "b is one");
    // The same where the rows of a do not lie as those of one matrix.
    const Array apart = numeric::laid_out(a, Lie::offset);
    expect_product(matmul(apart, broadcast_to(b, {1, 1, s.k, s.n})), right, s.k, "a lies apart");
    expect_product(matmul(numeric::laid_out(a, Lie::transposed), b), right, s.k, "a transposed");

    const std::vector<double> bs = some_values(6 * s.k * s.n, float32, 3);
    const std::vector<double> first(many.begin(), many.begin() + s.m * s.k);
    expect_product(
        matmul(array_of(first, {s.m, s.k}, float32), array_of(bs, {2, 3, s.k, s.n}, float32)),
        product_of(first, bs, s, true, false), s.k, "a is one");

    // [2, 1] with [3]: each with each.
    const Array a2 =
        array_of({many.begin(), many.begin() + 2 * s.m * s.k}, {2, 1, s.m, s.k}, float32);
    const Array b3 = array_of({bs.begin(), bs.begin() + 3 * s.k * s.n}, {3, s.k, s.n}, float32);
    Product each;
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        const auto part = [](const std::vector<double>& all, int64_t at, int64_t size) {
          return std::vector<double>(all.begin() + at * size, all.begin() + (at + 1) * size);
        };
        const Product pair = product_of(part(many, i, s.m * s.k), part(bs, j, s.k * s.n),
                                        {.m = s.m, .k = s.k, .n = s.n});
        each.values.insert(each.values.end(), pair.values.begin(), pair.values.end());
        each.magnitudes.insert(each.magnitudes.end(), pair.magnitudes.begin(),
                               pair.magnitudes.end());
      }
    }
    expect_product(matmul(a2, b3), each, s.k, "each with each");
  }
}

TEST_P(MatmulTest, vectors_are_rows_or_columns_as_in_numpy) {
  const Array v({1.0F, 2.0F, 3.0F}, {3});
  const Array m({1.0F, 0.0F, 0.0F, 1.0F, 1.0F, 1.0F}, {3, 2});
  EXPECT_EQ(matmul(v, v).shape(), Shape{});
  EXPECT_EQ(matmul(v, v).item<float>(), 14);
  EXPECT_EQ(values_of(matmul(v, m)), (std::vector<double>{4, 5}));
  EXPECT_EQ(matmul(v, m).shape(), Shape{2});
  EXPECT_EQ(values_of(matmul(transpose(m), v)), (std::vector<double>{4, 5}));
  EXPECT_EQ(matmul(broadcast_to(m, {4, 3, 2}), Array({1.0F, 1.0F}, {2})).shape(), (Shape{4, 3}));
  EXPECT_EQ(matmul(v, broadcast_to(m, {4, 3, 2})).shape(), (Shape{4, 2}));
}

TEST_P(MatmulTest, without_elements) {
  EXPECT_EQ(values_of(matmul(zeros({2, 0}), zeros({0, 3}))), std::vector<double>(6, 0));
  EXPECT_TRUE(values_of(matmul(zeros({0, 4}), zeros({4, 3}))).empty());
  EXPECT_TRUE(values_of(matmul(zeros({5, 0, 4}), zeros({4, 3}))).empty());
  EXPECT_TRUE(values_of(matmul(zeros({0, 5, 4}), zeros({4, 3}))).empty());
  EXPECT_EQ(matmul(zeros({0}), zeros({0})).item<float>(), 0);
}

TEST_P(MatmulTest, nan_and_infinity_reach_their_own_rows_alone) {
  for (const int64_t n : {6, 40}) {
    std::vector<double> a(static_cast<size_t>(n * n), 1);
    a[static_cast<size_t>(2 * n + 3)] = std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> got = values_of(matmul(array_of(a, {n, n}, float32), ones({n, n})));
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::isnan(got[i]), static_cast<int64_t>(i) / n == 2) << n << " " << i;
    }
  }
}

// Long sums of few elements, which libraries part and keep in a workspace.
TEST(Matmul, many_threads_and_streams_multiply_at_once) {
  constexpr int64_t kDepth = 4096;
  const auto numbers = [](int64_t salt) {
    std::vector<double> all;
    for (int64_t i = 0; i < 32 * kDepth; ++i) all.push_back(static_cast<double>((i + salt) % 5));
    return all;
  };
  const Array a = array_of(numbers(1), {32, kDepth}, float32);
  const Array b = array_of(numbers(2), {kDepth, 32}, float32);
  // Exact, so the same whoever adds it up.
  const std::vector<double> wanted =
      product_of(numbers(1), numbers(2), {.m = 32, .k = kDepth, .n = 32}).values;
  eval(a, b);
  std::vector<std::vector<Array>> results(4);
  std::vector<sync::Thread> threads;
  for (std::vector<Array>& mine : results) {
    threads.emplace_back("multiplies", [&] {
      const Stream stream = default_device().new_stream();
      for (int i = 0; i < 8; ++i) {
        mine.push_back(matmul(a, b, stream));
        async_eval(mine.back());
      }
    });
  }
  for (sync::Thread& thread : threads) thread.join();
  for (const std::vector<Array>& all : results) {
    for (const Array& one : all) ASSERT_EQ(values_of(one), wanted);
  }
}

TEST(Matmul, what_does_not_fit_is_refused) {
  const Array a = zeros({2, 3});
  EXPECT_THROW((void)matmul(a, a), UsageError);
  EXPECT_THROW((void)matmul(a, zeros({2})), UsageError);
  EXPECT_THROW((void)matmul(a, zeros({3, 2}, int32)), UsageError);
  EXPECT_THROW((void)matmul(a, Array(1.0F)), UsageError);
  EXPECT_THROW((void)matmul(zeros({2, 2, 3}), zeros({3, 3, 4})), UsageError);
}

}  // namespace
}  // namespace holdfast
