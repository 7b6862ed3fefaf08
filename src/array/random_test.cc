#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/array/philox.h"
#include "holdfast/base/error.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/creation.h"

namespace holdfast {
namespace {

using array::philox4x32;
using array::random_words;
using array::RandomUse;
using numeric::values_of;

TEST(Philox, gives_the_published_answers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0),
            (array::PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, ~uint64_t{0}),
            (array::PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(RandomUniform, is_the_first_bits_of_the_words) {
  const int64_t n = 1003;
  for (const uint64_t key : {uint64_t{0}, uint64_t{0x123456789abcdef}}) {
    for (const auto& [dtype, bits] : {std::pair{float32, 24}, {float16, 11}, {bfloat16, 8}}) {
      const std::vector<double> got = values_of(random_uniform({n}, dtype, RandomKey{key}));
      for (size_t i = 0; i < got.size(); ++i) {
        const uint32_t word = random_words(key, i / 4, RandomUse::uniform).at(i % 4);
        ASSERT_EQ(got[i], std::ldexp(word >> (32 - bits), -bits)) << to_string(dtype) << " " << i;
      }
    }
  }
}

// Box and Muller's numbers of the same words, in double precision.
double exact_normal(uint64_t key, size_t i) {
  const array::PhiloxCounter words = random_words(key, i / 4, RandomUse::normal);
  const size_t pair = i % 4 / 2;
  const double radius = std::sqrt(-2 * std::log((words.at(2 * pair) + 0.5) * 0x1p-32));
  const double angle = 2 * std::numbers::pi * (words.at(2 * pair + 1) + 0.5) * 0x1p-32;
  return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

void expect_exact_normals(int64_t n, uint64_t key) {
  const std::vector<double> got = values_of(random_normal({n}, float32, RandomKey{key}));
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double wanted = exact_normal(key, i);
    // What the integers have, and the rounding to float32.
    const double error = std::abs(got[i] - wanted) - std::abs(wanted) * 0x1p-24;
    worst = std::max(worst, error);
  }
  EXPECT_LT(worst, 2e-8);
}

TEST(RandomNormal, is_what_double_precision_makes_of_the_same_words) {
  expect_exact_normals(200'003, 42);
}

TEST(RandomNormal, nightly_is_what_double_precision_makes_of_the_same_words) {
  for (uint64_t key = 0; key < 8; ++key) expect_exact_normals(4'000'000, key);
}

TEST(RandomNormal, of_short_floats_is_the_same_rounded) {
  const RandomKey key{7};
  for (const Dtype dtype : {float16, bfloat16}) {
    const std::vector<double> got = values_of(random_normal({10001}, dtype, key));
    for (size_t i = 0; i < got.size(); ++i) {
      const double wanted = exact_normal(key.value, i);
      const double allowed =
          std::abs(wanted) * numeric::half_ulp(dtype) * 1.0001 + numeric::half_step(dtype) + 2e-8;
      ASSERT_NEAR(got[i], wanted, allowed) << to_string(dtype) << " " << i;
    }
  }
}

TEST(RandomNormal, has_the_moments_of_the_distribution) {
  const size_t n = 1'000'000;
  const std::vector<double> v = values_of(random_normal({int64_t{n}}, float32, RandomKey{3}));
  std::array<double, 5> moments{};
  double neighbours = 0;
  double largest = 0;
  for (size_t i = 0; i < n; ++i) {
    double power = 1;
    for (double& m : moments) {
      m += power / n;
      power *= v[i];
    }
    if (i > 0) neighbours += v[i] * v[i - 1] / n;
    largest = std::max(largest, std::abs(v[i]));
  }
  // Five standard errors of each estimate: of x^k it is sqrt(var(x^k) / n).
  const double error = 5 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(moments[1], 0, error);
  EXPECT_NEAR(moments[2], 1, error * std::sqrt(2));
  EXPECT_NEAR(moments[3], 0, error * std::sqrt(15));
  EXPECT_NEAR(moments[4], 3, error * std::sqrt(96));
  EXPECT_NEAR(neighbours, 0, error);
  // A million has one beyond 4 with certainty, and one beyond 6.5 almost never.
  EXPECT_GT(largest, 4);
  EXPECT_LT(largest, 6.5);
}

TEST(RandomUniform, fills_its_interval_evenly) {
  const size_t n = 1'000'000;
  const std::vector<double> v = values_of(random_uniform({int64_t{n}}, float32, RandomKey{4}));
  std::vector<double> counts(100);
  double neighbours = 0;
  for (size_t i = 0; i < n; ++i) {
    ASSERT_GE(v[i], 0);
    ASSERT_LT(v[i], 1);
    ++counts[static_cast<size_t>(v[i] * 100)];
    if (i > 0) neighbours += (v[i] - 0.5) * (v[i - 1] - 0.5) / n;
  }
  double chi_square = 0;
  for (const double c : counts) chi_square += (c - n / 100.0) * (c - n / 100.0) / (n / 100.0);
  // 99 degrees of freedom: mean 99, standard deviation 14.
  EXPECT_NEAR(chi_square, 99, 5 * 14.1);
  EXPECT_NEAR(neighbours, 0, 5 / 12.0 / std::sqrt(static_cast<double>(n)));
}

TEST(Random, depends_on_key_and_position_alone) {
  const RandomKey key{99};
  for (const auto& make :
       {+[](const Shape& s, RandomKey k) { return random_normal(s, float32, k); },
        +[](const Shape& s, RandomKey k) { return random_uniform(s, float32, k); }}) {
    const std::vector<double> line = values_of(make({60}, key));
    EXPECT_EQ(values_of(make({3, 4, 5}, key)), line);
    const std::vector<double> first = values_of(make({7}, key));
    EXPECT_EQ(first, std::vector<double>(line.begin(), line.begin() + 7));
    EXPECT_EQ(values_of(make({}, key)), std::vector<double>(line.begin(), line.begin() + 1));
    EXPECT_EQ(values_of(make({0, 3}, key)).size(), 0U);
  }
}

TEST(Random, keys_and_uses_are_apart) {
  const RandomKey key{1};
  std::set<uint64_t> keys{key.value};
  for (uint64_t i = 0; i < 1000; ++i) {
    keys.insert(key.split(i).value);
    keys.insert(RandomKey{2}.split(i).value);
  }
  EXPECT_EQ(keys.size(), 2001U);
  // Of independent numbers the product has mean 0, with a standard error of 1/12 or 1 over the
  // root.
  const int64_t n = 100'000;
  const auto correlation = [&](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum / static_cast<double>(n);
  };
  const std::vector<double> a = values_of(random_normal({n}, float32, key));
  const std::vector<double> b = values_of(random_normal({n}, float32, key.split(0)));
  std::vector<double> c = values_of(random_uniform({n}, float32, key));
  for (double& v : c) v -= 0.5;
  const double error = 5 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(correlation(a, b), 0, error);
  EXPECT_NEAR(correlation(a, c), 0, error);
}

TEST(Random, the_keys_of_the_process_follow_from_the_seed) {
  random_seed(5);
  const std::vector<uint64_t> first{next_random_key().value, next_random_key().value};
  const Array drawn = random_normal({8});
  random_seed(5);
  EXPECT_EQ(next_random_key().value, first[0]);
  EXPECT_EQ(next_random_key().value, first[1]);
  EXPECT_EQ(values_of(random_normal({8})), values_of(drawn));
  EXPECT_NE(values_of(random_normal({8})), values_of(drawn));
  random_seed(6);
  EXPECT_NE(next_random_key().value, first[0]);
}

TEST(Random, threads_get_each_key_once) {
  random_seed(11);
  constexpr size_t kEach = 2000;
  std::array<std::vector<uint64_t>, 4> got;
  {
    std::vector<sync::Thread> threads;
    for (auto& mine : got) {
      threads.emplace_back("keys", [&mine] {
        for (size_t i = 0; i < kEach; ++i) mine.push_back(next_random_key().value);
      });
    }
    for (sync::Thread& thread : threads) thread.join();
  }
  std::set<uint64_t> all;
  for (const auto& mine : got) all.insert(mine.begin(), mine.end());
  std::set<uint64_t> wanted;
  for (uint64_t i = 0; i < got.size() * kEach; ++i) wanted.insert(RandomKey{11}.split(i).value);
  EXPECT_EQ(all, wanted);
}

TEST(Random, other_dtypes_are_refused_by_name) {
  for (const Dtype dtype : {int32, bool_, float64}) {
    try {
      (void)random_normal({3}, dtype, RandomKey{});
      FAIL() << to_string(dtype);
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(to_string(dtype)), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace holdfast
