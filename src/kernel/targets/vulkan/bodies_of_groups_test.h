#pragma once

#include <vector>

#include "holdfast/kernel/targets/vulkan/compared_body_test.h"

// Bodies whose threads work together.

namespace holdfast::kernel {

inline std::vector<ComparedBody> bodies_of_groups() {
  using enum Dtype;
  std::vector<ComparedBody> bodies;
  // 64ths: exact in any order.
  bodies.push_back({.name = "row_sums_in_threadgroup_memory",
                    .body = R"(
threadgroup float part[64];
uint t = thread_index_in_threadgroup;
uint row = threadgroup_position_in_grid.x;
float sum = 0;
for (uint i = t; i < N; i += threads_per_threadgroup.x) sum += x[row * N + i];
part[t] = sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint s = threads_per_threadgroup.x / 2; s > 0; s >>= 1) {
  if (t < s) part[t] += part[t + s];
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
if (t == 0) y[row] = part[0];
)",
                    .inputs = {numbers("x", float32, 9 * 150, 31)},
                    .outputs = {filled("y", float32, 9)},
                    .grid = {64 * 9, 1, 1},
                    .threadgroup = {64, 1, 1},
                    .constants = {{"N", int64_t{150}}}});
  // The mean of squares is exact, rsqrt to two units, and two products.
  bodies.push_back({.name = "rms_norm_by_simdgroups",
                    .body = R"(
threadgroup float part[32];
uint row = threadgroup_position_in_grid.x;
uint t = thread_index_in_threadgroup;
float sum = 0;
for (uint i = t; i < N; i += threads_per_threadgroup.x) {
  float v = float(x[row * N + i]);
  sum += v * v;
}
sum = simd_sum(sum);
if (thread_index_in_simdgroup == 0) part[simdgroup_index_in_threadgroup] = sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
if (simdgroup_index_in_threadgroup == 0) {
  sum = thread_index_in_simdgroup < simdgroups_per_threadgroup ? part[thread_index_in_simdgroup]
                                                                : 0.0f;
  sum = simd_sum(sum);
  if (thread_index_in_simdgroup == 0) part[0] = metal::rsqrt(sum / N + eps);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
float scale = part[0];
for (uint i = t; i < N; i += threads_per_threadgroup.x) {
  y[row * N + i] = float(x[row * N + i]) * scale * w[i];
}
)",
                    .inputs = {numbers("x", float16, 6 * 192, 32), numbers("w", float32, 192, 33)},
                    .outputs = {filled("y", float32, 6 * 192)},
                    .grid = {96 * 6, 1, 1},
                    .threadgroup = {96, 1, 1},
                    .constants = {{"N", int64_t{192}}},
                    .params = {{"eps", 1e-5F}},
                    .units = 6});
  bodies.push_back({.name = "simdgroups_that_do_different_things",
                    .body = R"(
uint g = simdgroup_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
uint i = thread_position_in_grid.x;
int v = x[i];
int r = 0;
if (g == 0) {
  r = simd_sum(v);
} else if (g == 1) {
  for (uint n = 0; n < 3; ++n) r = r * 3 + simd_max(v ^ int(n));
} else {
  switch (g) {
    case 2: r = simd_shuffle_xor(v, 5); break;
    case 3: r = simd_prefix_inclusive_sum(v);
    default: r += simd_broadcast(v, lane & 0) - simd_min(v);
  }
}
y[i] = r;
)",
                    .inputs = {numbers("x", int32, 160 * 2, 34, -100, 200)},
                    .outputs = {filled("y", int32, 320)},
                    .grid = {320, 1, 1},
                    .threadgroup = {160, 1, 1}});
  bodies.push_back({.name = "simdgroups_leave_a_loop_one_by_one",
                    .body = R"(
uint g = simdgroup_index_in_threadgroup;
uint i = thread_position_in_grid.x;
uint v = x[i];
uint rounds = 0;
while (true) {
  uint most = simd_max(v);
  if (most < 100 * (g + 1)) break;
  uint odd = odd_lanes(v);
  v = v > 50 ? v - 50 + odd : v / 2;
  if (++rounds == 40) break;
}
y[i] = v + (rounds << 16);
)",
                    .header = R"(
METAL_FUNC uint odd_lanes(uint v) { return simd_sum(v & 1u) & 7; }
)",
                    .inputs = {numbers("x", uint32, 128, 35, 0, 900)},
                    .outputs = {filled("y", uint32, 128)},
                    .grid = {128, 1, 1},
                    .threadgroup = {128, 1, 1}});
  bodies.push_back({.name = "scan_of_a_group_by_doubling",
                    .body = R"(
threadgroup uint a[2][100];
uint t = thread_index_in_threadgroup;
uint n = threads_per_threadgroup.x;
uint i = thread_position_in_grid.x;
int from = 0;
a[0][t] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint step = 1; step < n; step <<= 1) {
  a[1 - from][t] = a[from][t] + (t >= step ? a[from][t - step] : 0u);
  from = 1 - from;
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
y[i] = a[from][t];
)",
                    .inputs = {any_bits("x", uint32, 250, 36)},
                    .outputs = {filled("y", uint32, 250)},
                    .grid = {250, 1, 1},
                    .threadgroup = {100, 1, 1}});
  bodies.push_back({.name = "scan_by_simdgroups_and_their_sums",
                    .body = R"(
threadgroup long sums[32];
uint i = thread_position_in_grid.x;
long v = x[i];
long own = simd_prefix_inclusive_sum(v);
uint last = min(31u, threads_per_threadgroup.x - 1 - simdgroup_index_in_threadgroup * 32);
if (thread_index_in_simdgroup == last) sums[simdgroup_index_in_threadgroup] = own;
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint s = 0; s < simdgroup_index_in_threadgroup; ++s) own += sums[s];
y[i] = own;
)",
                    .inputs = {any_bits("x", int32, 200, 37)},
                    .outputs = {filled("y", int64, 200)},
                    .grid = {200, 1, 1},
                    .threadgroup = {80, 1, 1}});
  // 32 products of 64ths below 16: exact.
  bodies.push_back(
      {.name = "tiled_matmul_with_edges",
       .body = R"(
threadgroup float at[TILE][TILE + 1];
threadgroup float bt[TILE][TILE + 1];
uint2 t = thread_position_in_threadgroup.xy;
uint row = threadgroup_position_in_grid.y * TILE + t.y;
uint col = threadgroup_position_in_grid.x * TILE + t.x;
float sum = 0;
for (uint k = 0; k < K; k += TILE) {
  at[t.y][t.x] = row < M && k + t.x < K ? a[row * K + k + t.x] : 0.0f;
  bt[t.y][t.x] = col < N && k + t.y < K ? b[(k + t.y) * N + col] : 0.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint j = 0; j < TILE; ++j) sum = metal::fma(at[t.y][j], bt[j][t.x], sum);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
if (row < M && col < N) c[row * N + col] = sum;
)",
       .inputs = {numbers("a", float32, 21 * 30, 38), numbers("b", float32, 30 * 19, 39)},
       .outputs = {filled("c", float32, 21 * 19)},
       .grid = {24, 24, 1},
       .threadgroup = {8, 8, 1},
       .constants = {
           {"TILE", int64_t{8}}, {"M", int64_t{21}}, {"N", int64_t{19}}, {"K", int64_t{30}}}});
  // exp to two units, and sums of up to 40 of them that are rescaled now and then.
  bodies.push_back({.name = "attention_with_online_softmax",
                    .body = R"(
uint lane = thread_index_in_simdgroup;
uint row = thread_position_in_grid.y;
float q_own = q[row * 32 + lane] * 0.17677669f;
float most = -INFINITY;
float total = 0;
float out = 0;
for (uint j = 0; j < KEYS; ++j) {
  if (j > row + 30) break;
  float score = simd_sum(q_own * k[j * 32 + lane]);
  float now = metal::max(most, score);
  float keep = metal::exp(most - now);
  float weight = metal::exp(score - now);
  total = total * keep + weight;
  out = out * keep + weight * v[j * 32 + lane];
  most = now;
}
y[row * 32 + lane] = out / total;
)",
                    .inputs = {numbers("q", float32, 5 * 32, 40, -1, 2),
                               numbers("k", float32, 40 * 32, 41, -1, 2),
                               numbers("v", float32, 40 * 32, 42, 0, 4)},
                    .outputs = {filled("y", float32, 5 * 32)},
                    .grid = {32, 5, 1},
                    .threadgroup = {32, 1, 1},
                    .constants = {{"KEYS", int64_t{40}}},
                    .units = 32});
  bodies.push_back({.name = "histogram_by_atomics",
                    .body = R"(
threadgroup atomic_uint local[16];
uint t = thread_index_in_threadgroup;
if (t < 16) atomic_store_explicit(&local[t], 0u, memory_order_relaxed);
threadgroup_barrier(mem_flags::mem_threadgroup);
atomic_fetch_add_explicit(&local[x[thread_position_in_grid.x] & 15], 1u, memory_order_relaxed);
threadgroup_barrier(mem_flags::mem_threadgroup);
if (t < 16) {
  uint n = atomic_load_explicit(&local[t], memory_order_relaxed);
  if (n > 0) atomic_fetch_add_explicit(&y[t], n, memory_order_relaxed);
}
)",
                    .inputs = {any_bits("x", uint8, 1000, 43)},
                    .outputs = {filled("y", uint32, 16)},
                    .grid = {1000, 1, 1},
                    .threadgroup = {64, 1, 1},
                    .atomic = true});
  // 64ths: exact in any order. Elements that no thread reaches keep what they had.
  bodies.push_back(
      {.name = "atomic_floats_on_initial_values",
       .body = R"(
uint i = thread_position_in_grid.x;
atomic_fetch_add_explicit(&y[to[i]], x[i], memory_order_relaxed);
atomic_fetch_max_explicit(&most[to[i] % 4], x[i], memory_order_relaxed);
)",
       .inputs = {numbers("x", float32, 600, 44), numbers("to", uint32, 600, 45, 0, 30)},
       .outputs = {filled("y", float32, 40, 2.5F), filled("most", float32, 4, -100)},
       .grid = {600, 1, 1},
       .atomic = true});
  bodies.push_back({.name = "atomic_integers_of_every_kind",
                    .body = R"(
uint i = thread_position_in_grid.x;
int v = x[i];
atomic_fetch_add_explicit(&y[0], v, memory_order_relaxed);
atomic_fetch_sub_explicit(&y[1], v, memory_order_relaxed);
atomic_fetch_min_explicit(&y[2], v, memory_order_relaxed);
atomic_fetch_max_explicit(&y[3], v, memory_order_relaxed);
atomic_fetch_and_explicit(&y[4], v | 0xff, memory_order_relaxed);
atomic_fetch_or_explicit(&y[5], v & 0xff0, memory_order_relaxed);
atomic_fetch_xor_explicit(&y[6], v, memory_order_relaxed);
int seen = atomic_load_explicit(&y[7], memory_order_relaxed);
while (!atomic_compare_exchange_weak_explicit(&y[7], &seen, seen + (v & 7), memory_order_relaxed,
                                              memory_order_relaxed)) {
}
)",
                    .inputs = {any_bits("x", int32, 500, 46)},
                    .outputs = {filled("y", int32, 8, -1)},
                    .grid = {500, 1, 1},
                    .atomic = true});
  bodies.push_back({.name = "grid_of_three_dimensions_with_edges_and_barriers",
                    .body = R"(
threadgroup uint s[4 * 3 * 2];
uint t = thread_index_in_threadgroup;
uint3 n = threads_per_threadgroup;
uint3 p = thread_position_in_grid;
uint at = (p.z * threads_per_grid.y + p.y) * threads_per_grid.x + p.x;
s[t] = x[at];
threadgroup_barrier(mem_flags::mem_threadgroup);
uint count = n.x * n.y * n.z;
uint sum = 0;
for (uint i = 0; i < count; ++i) sum = sum * 3 + s[(t + i) % count];
y[at] = sum + n.x * 100 + n.y * 10 + n.z;
)",
                    .inputs = {any_bits("x", uint32, 10 * 7 * 5, 47)},
                    .outputs = {filled("y", uint32, 350)},
                    .grid = {10, 7, 5},
                    .threadgroup = {4, 3, 2}});
  bodies.push_back(
      {.name = "early_returns_between_barriers_of_whole_groups",
       .body = R"(
threadgroup int s[32];
uint t = thread_index_in_threadgroup;
uint group = threadgroup_position_in_grid.x;
if (flags[group] == 0) return;
s[t] = x[thread_position_in_grid.x];
threadgroup_barrier(mem_flags::mem_threadgroup);
int v = s[31 - t];
if (flags[group] == 1) {
  y[thread_position_in_grid.x] = v;
  return;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
s[t] = v - s[t] * 0;
threadgroup_barrier(mem_flags::mem_threadgroup);
if (t % 3 == 0) return;
y[thread_position_in_grid.x] = s[(t + 1) % 32] * 2;
)",
       .inputs = {any_bits("x", int32, 32 * 6, 48), numbers("flags", uint8, 6, 49, 0, 3)},
       .outputs = {filled("y", int32, 32 * 6, -5)},
       .grid = {32 * 6, 1, 1}});
  bodies.push_back({.name = "arrays_of_threadgroup_pointers",
                    .body = R"(
threadgroup int a[48];
threadgroup int b[48];
threadgroup int* parts[3];
uint t = thread_index_in_threadgroup;
parts[0] = a;
parts[1] = t > 20 ? b : a;
parts[2] = a + 16;
a[t] = x[t];
b[t] = x[t] * 5;
threadgroup_barrier(mem_flags::mem_threadgroup);
threadgroup int* from = parts[t % 3];
int sum = 0;
for (uint i = 0; i < 3; ++i) sum += parts[(t + i) % 3][i] - from[t % 32];
y[t] = sum;
)",
                    .inputs = {numbers("x", int32, 48, 50, -1000, 2000)},
                    .outputs = {filled("y", int32, 48)},
                    .grid = {48, 1, 1},
                    .threadgroup = {48, 1, 1}});
  bodies.push_back({.name = "tables_of_threadgroup_pointers",
                    .body = R"(
threadgroup int a[48];
threadgroup int b[48];
threadgroup int* parts[3] = {a, b, a + 13};
uint t = thread_index_in_threadgroup;
a[t] = x[t];
b[t] = x[t] * 5;
threadgroup_barrier(mem_flags::mem_threadgroup);
int sum = 0;
for (uint i = 0; i < 3; ++i) sum = sum * 3 + parts[(t + i) % 3][t % 35];
y[t] = sum;
)",
                    .inputs = {numbers("x", int32, 48, 52, -1000, 2000)},
                    .outputs = {filled("y", int32, 48)},
                    .grid = {48, 1, 1},
                    .threadgroup = {48, 1, 1}});
  bodies.push_back({.name = "bitonic_sort_in_threadgroup_memory",
                    .body = R"(
threadgroup int s[64];
uint t = thread_index_in_threadgroup;
uint base = threadgroup_position_in_grid.x * 64;
s[t] = x[base + t];
for (uint k = 2; k <= 64; k *= 2) {
  for (uint j = k / 2; j > 0; j /= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint other = t ^ j;
    if (other <= t) continue;
    bool up = (t & k) == 0;
    if ((s[t] > s[other]) == up) swap_them(s[t], s[other]);
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
y[base + t] = s[t];
)",
                    .header = R"(
template <typename T> METAL_FUNC void swap_them(threadgroup T& a, threadgroup T& b) {
  T kept = a;
  a = b;
  b = kept;
}
)",
                    .inputs = {any_bits("x", int32, 192, 51)},
                    .outputs = {filled("y", int32, 192)},
                    .grid = {192, 1, 1},
                    .threadgroup = {64, 1, 1}});
  return bodies;
}

}  // namespace holdfast::kernel
