// Threads that work together: threadgroup memory, barriers, simdgroups, atomics.

#include "holdfast/kernel/language_rig_test.h"

namespace holdfast::kernel {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

using LanguageGroups = LanguageTest;

TEST_F(LanguageGroups, threadgroup_memory_and_barriers_reduce_a_group) {
  const Call call{.body = R"(
threadgroup float shared[128];
threadgroup float* mine = shared;
uint t = thread_position_in_threadgroup.x;
mine[t] = x[thread_position_in_grid.x];
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint s = 64; s > 0; s >>= 1) {
  if (t < s && t + s < threads_per_threadgroup.x) shared[t] += shared[t + s];
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
}
if (t == 0) y[threadgroup_position_in_grid.x] = shared[0];
)",
                  .x = iota(300),
                  .outputs = 3,
                  .grid = {300, 1, 1},
                  .threadgroup = {128, 1, 1}};
  EXPECT_THAT(run(call), ElementsAre(127 * 64, 128 * 128 + 127 * 64, 44 * 256 + 43 * 22));
}

TEST_F(LanguageGroups, a_helper_of_the_header_meets_at_barriers_too) {
  const Call call{.body = R"(
threadgroup float buffer[64];
float total = sum_of(float(thread_index_in_threadgroup), buffer, thread_index_in_threadgroup, 64);
y[thread_position_in_grid.x] = total;
)",
                  .header = R"(
#include <metal_stdlib>
using namespace metal;
METAL_FUNC float sum_of(float v, threadgroup float* buffer, uint t, uint n) {
  buffer[t] = v;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0;
  for (uint i = 0; i < n; ++i) sum += buffer[i];
  return sum;
}
)",
                  .outputs = 64,
                  .grid = {64, 1, 1},
                  .threadgroup = {64, 1, 1}};
  EXPECT_THAT(run(call), Each(2016));
}

TEST_F(LanguageGroups, simdgroups_exchange_values_and_lanes_that_are_not_there_do_not_count) {
  const Call call{.body = R"(
uint t = thread_position_in_grid.x;
uint lane = thread_index_in_simdgroup;
uint n = 0;
float v = lane + 1;
y[t * 20 + n++] = simd_sum(v);
y[t * 20 + n++] = simd_max(v);
y[t * 20 + n++] = simd_min(v);
y[t * 20 + n++] = simd_product(lane < 3 ? v : 1.0f);
y[t * 20 + n++] = simd_prefix_exclusive_sum(v);
y[t * 20 + n++] = simd_prefix_inclusive_sum(v);
y[t * 20 + n++] = simd_shuffle(v, 2);
y[t * 20 + n++] = simd_shuffle_down(v, 1);
y[t * 20 + n++] = simd_shuffle_up(v, 1);
y[t * 20 + n++] = simd_shuffle_xor(v, 1);
y[t * 20 + n++] = simd_broadcast(v, 3);
y[t * 20 + n++] = simd_broadcast_first(v);
y[t * 20 + n++] = simd_all(v > 0);
y[t * 20 + n++] = simd_any(v > 4);
y[t * 20 + n++] = simd_or(1u << (lane % 3)) * 10 + simd_and(7u) + simd_xor(lane);
simdgroup_barrier(mem_flags::mem_none);
y[t * 20 + n++] = simd_sum(float2(v, 1)).y;
y[t * 20 + n++] = simd_sum(half(1));
y[t * 20 + n++] = (ulong)simd_ballot(lane < 2);
y[t * 20 + n++] = simd_sum(bool(true) ? 1 : 0);
y[t * 20 + n++] = simd_sum((long)lane);
)",
                  .outputs = 38 * 20,
                  .grid = {38, 1, 1},
                  .threadgroup = {38, 1, 1}};
  const std::vector<float> y = run(call);
  for (size_t t = 0; t < 38; ++t) {
    const size_t lanes = t < 32 ? 32 : 6;
    const size_t lane = t % 32;
    const auto v = static_cast<float>(lane + 1);
    const auto all = static_cast<float>(lanes);
    const float sum = all * (all + 1) / 2;
    uint32_t parity = 0;
    for (uint32_t i = 0; i < lanes; ++i) parity ^= i;
    const size_t lower = lane * (lane + 1) / 2;
    const auto before = static_cast<float>(lower);
    const std::vector<float> expected{sum,
                                      all,
                                      1,
                                      6,
                                      before,
                                      before + v,
                                      3,
                                      lane + 1 < lanes ? v + 1 : v,
                                      lane > 0 ? v - 1 : v,
                                      (lane ^ 1) < lanes ? static_cast<float>((lane ^ 1) + 1) : v,
                                      4,
                                      1,
                                      1,
                                      1,
                                      static_cast<float>(70 + 7 + parity),
                                      all,
                                      all,
                                      3,
                                      all,
                                      sum - all};
    EXPECT_THAT(std::vector<float>(&y[t * 20], &y[t * 20] + 20), ElementsAreArray(expected)) << t;
  }
}

TEST_F(LanguageGroups, atomic_outputs_add_up_from_all_threads) {
  const Call call{.body = R"(
uint i = thread_position_in_grid.x;
atomic_fetch_add_explicit(&y[0], x[i], memory_order_relaxed);
atomic_fetch_add_explicit(y + 1, 1, memory_order_relaxed);
atomic_fetch_max_explicit(&y[2], float(i), memory_order_relaxed);
atomic_fetch_sub_explicit(&y[3], 1.0f, memory_order_relaxed);
if (i == 7) atomic_store_explicit(&y[4], 5.0f, memory_order_relaxed);
if (i == 8) y_exchange(&y[5]);
)",
                  .header = R"(
void y_exchange(device atomic<float>* at) {
  float expected = 0;
  while (!atomic_compare_exchange_weak_explicit(at, &expected, 3.0f, memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
  float now = atomic_load_explicit(at, memory_order_relaxed);
  atomic_exchange_explicit(at, now + 1, memory_order_relaxed);
}
)",
                  .x = std::vector<float>(1000, 0.5F),
                  .outputs = 6,
                  .grid = {1000, 1, 1},
                  .atomic = true};
  for (const bool bounds : {false, true}) {
    Call checked = call;
    checked.bounds = bounds;
    EXPECT_THAT(run(checked), ElementsAre(500, 1000, 999, -1000, 5, 4)) << bounds;
  }
}

TEST_F(LanguageGroups, atomics_of_integers_count_in_threadgroup_memory) {
  const Call call{.body = R"(
threadgroup atomic_uint count;
threadgroup atomic<int> least[2];
threadgroup atomic_bool flag;
uint t = thread_index_in_threadgroup;
if (t == 0) {
  atomic_store_explicit(&count, 0, memory_order_relaxed);
  atomic_store_explicit(&least[1], 1000, memory_order_relaxed);
  atomic_store_explicit(&flag, false, memory_order_relaxed);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
atomic_fetch_add_explicit(&count, 2u, memory_order_relaxed);
atomic_fetch_min_explicit(&least[1], int(t) - 3, memory_order_relaxed);
atomic_fetch_or_explicit(&flag, t == 5, memory_order_relaxed);
threadgroup_barrier(mem_flags::mem_threadgroup);
if (t == 0) {
  y[0] = atomic_load_explicit(&count, memory_order_relaxed);
  y[1] = atomic_load_explicit(&least[1], memory_order_relaxed);
  y[2] = atomic_load_explicit(&flag, memory_order_relaxed);
}
)",
                  .outputs = 3,
                  .grid = {40, 1, 1},
                  .threadgroup = {40, 1, 1}};
  EXPECT_THAT(run(call), ElementsAre(80, -3, 1));
}

TEST_F(LanguageGroups, threadgroup_memory_is_shared_however_it_is_declared) {
  const std::string body = R"(
    uint i = thread_index_in_threadgroup;
    s[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = s[31 - i];
  )";
  const std::vector<float> values = iota(32);
  const std::vector<float> reversed(values.rbegin(), values.rend());
  const auto run_with = [&](const std::string& declaration, const std::string& header = "") {
    return run({.body = declaration + body,
                .header = header,
                .x = values,
                .outputs = 32,
                .grid = {32, 1, 1}});
  };
  EXPECT_EQ(run_with("SHARED float s[32];", "#define SHARED threadgroup"), reversed);
  EXPECT_EQ(run_with("FLOATS s[32];", "#define FLOATS threadgroup float"), reversed);
  EXPECT_EQ(run_with("threadgroup alignas(16) float s[32];"), reversed);
  EXPECT_EQ(run_with("threadgroup B<(4 << 3)> s;",
                     "template <int N> struct B {\n  float v[N];\n"
                     "  thread float& operator[](uint i) { return v[i]; }\n};"),
            reversed);
  EXPECT_EQ(run_with("threadgroup float s[M];", "constant int M = 32;"), reversed);
}

TEST_F(LanguageGroups, others_write_a_buffer_across_a_barrier) {
  EXPECT_EQ(run({.body = R"(
                   uint i = thread_index_in_threadgroup;
                   float a = y[0];
                   threadgroup_barrier(mem_flags::mem_device);
                   if (i == 1) y[0] = 7;
                   threadgroup_barrier(mem_flags::mem_device);
                   float b = y[0];
                   threadgroup_barrier(mem_flags::mem_device);
                   y[i] = a + b;
                 )",
                 .outputs = 32,
                 .grid = {32, 1, 1}}),
            std::vector<float>(32, 7));
}

// As on Apple's GPUs: an operation is of the lanes that come to it.
TEST_F(LanguageGroups, operations_in_divergent_flow_are_of_the_lanes_that_are_there) {
  const std::vector<float> y = run({.body = R"(
uint l = thread_index_in_simdgroup;
float v = l;
if (l < 16) {
  v = simd_sum(1.0f) + simd_shuffle_up(v, 1);
} else {
  v = 100 + simd_max(l < 20 ? v : 0.0f);
  if (l % 2 == 1) v = simd_broadcast_first(float(l)) + simd_prefix_inclusive_sum(1.0f);
}
y[l] = v + 1000 * simd_min(v) + (simd_is_first() ? 0.5f : 0.0f);
)",
                                    .outputs = 32,
                                    .grid = {32, 1, 1}});
  for (size_t l = 0; l < 32; ++l) {
    double v = 0;
    if (l < 16) {
      v = 16 + static_cast<double>(l == 0 ? 0 : l - 1);
    } else if (l % 2 == 1) {
      const size_t odd_before = (l - 17) / 2;
      v = 18 + static_cast<double>(odd_before);
    } else {
      v = 119;
    }
    EXPECT_FLOAT_EQ(y[l], static_cast<float>(v + 16000 + (l == 0 ? 0.5 : 0))) << l;
  }
}

TEST_F(LanguageGroups, lanes_leave_loops_and_bodies_one_by_one) {
  const std::vector<float> y = run({.body = R"(
uint l = thread_index_in_simdgroup;
if (l == 31) return;
float sum = 0;
for (uint i = 0; i < l; ++i) {
  if (i == 3) continue;
  sum += simd_sum(1.0f);
}
y[l] = sum + 1000 * simd_sum(1.0f);
)",
                                    .outputs = 32,
                                    .grid = {32, 1, 1}});
  for (size_t l = 0; l < 31; ++l) {
    double sum = 0;
    for (size_t i = 0; i < l; ++i) {
      if (i != 3) sum += static_cast<double>(30 - i);
    }
    EXPECT_FLOAT_EQ(y[l], static_cast<float>(sum + 31000)) << l;
  }
  EXPECT_EQ(y[31], 0);
}

// A tree over simdgroups whose author left the last barriers out: right where these advance
// together from one operation to the next.
TEST_F(LanguageGroups, simdgroups_advance_together_between_operations) {
  const std::vector<float> y = run({.body = R"(
threadgroup float part[4];
uint s = simdgroup_index_in_threadgroup;
float sum = simd_sum(x[thread_index_in_threadgroup]);
if (thread_index_in_simdgroup == 0) part[s] = sum;
sum = simd_sum(0.0f);
y[thread_index_in_threadgroup] = part[0] + part[1] + part[2] + part[3];
)",
                                    .x = std::vector<float>(128, 1),
                                    .outputs = 128,
                                    .grid = {128, 1, 1},
                                    .threadgroup = {128, 1, 1}});
  if (world.family() == testing::Family::cpu) {
    EXPECT_THAT(y, ::testing::Each(128));
  } else {
    GTEST_SKIP() << "a race, which other devices decide as they like";
  }
}

}  // namespace
}  // namespace holdfast::kernel
