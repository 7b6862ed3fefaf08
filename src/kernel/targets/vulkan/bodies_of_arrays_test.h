#pragma once

#include <vector>

#include "holdfast/kernel/targets/vulkan/compared_body_test.h"

// Bodies whose threads work alone: what most kernels of array libraries do.

namespace holdfast::kernel {

inline std::vector<ComparedBody> bodies_of_arrays() {
  using enum Dtype;
  std::vector<ComparedBody> bodies;
  // x * sigmoid(x) and the tanh form of GELU: exp and tanh to two units each, then products.
  bodies.push_back({.name = "gated_activation",
                    .body = R"(
uint i = thread_position_in_grid.x;
float g = x[i];
float silu = g / (1.0f + metal::exp(-g));
float inner = 0.7978845608f * (g + 0.044715f * g * g * g);
float gelu = 0.5f * g * (1.0f + metal::precise::tanh(inner));
y[i] = silu * w[i];
z[i] = gelu;
)",
                    .inputs = {numbers("x", float32, 1000, 1), numbers("w", float32, 1000, 2)},
                    .outputs = {filled("y", float32, 1000), filled("z", float32, 1000)},
                    .grid = {1000, 1, 1},
                    .threadgroup = {128, 1, 1},
                    .units = 8,
                    .about = 1});
  // Sums of multiples of 1/64, which are exact.
  bodies.push_back(
      {.name = "strided_through_elem_to_loc",
       .body = R"(
uint i = thread_position_in_grid.x;
auto at = elem_to_loc(i, x_shape, x_strides, x_ndim);
auto bt = elem_to_loc(i, b_shape, b_strides, b_ndim);
y[i] = x[at] + b[bt];
)",
       .inputs = {{"x", float32, numbers("", float32, 120, 3).bytes, {4, 5, 6}, {1, 24, 4}},
                  {"b", float32, numbers("", float32, 6, 4).bytes, {4, 5, 6}, {0, 0, 1}}},
       .outputs = {filled("y", float32, 120)},
       .grid = {120, 1, 1}});
  bodies.push_back(
      {.name = "every_other_column_backwards_in_rows_of_int16",
       .body = R"(
uint3 p = thread_position_in_grid;
long at = long(p.y) * x_strides[0] + long(p.x) * x_strides[1];
y[p.y * threads_per_grid.x + p.x] = x[at] * 3 - short(p.y);
)",
       .inputs = {{"x", int16, any_bits("", int16, 7 * 20, 5).bytes, {7, 10}, {20, 2}}},
       .outputs = {filled("y", int16, 70)},
       .grid = {10, 7, 1},
       .threadgroup = {4, 4, 1}});
  bodies.push_back(
      {.name = "eight_bit_weights_with_scales",
       .body = R"(
uint i = thread_position_in_grid.x;
uint word = w[i / 4];
uint q = (word >> ((i % 4) * 8)) & 0xff;
float s = scales[i / GROUP];
y[i] = T(s * float(q) + float(biases[i / GROUP]));
)",
       .inputs = {any_bits("w", uint32, 128, 6), numbers("scales", float16, 8, 7, 0, 1),
                  numbers("biases", float16, 8, 8)},
       // Products of few bits: exact before they are rounded to half.
       .outputs = {filled("y", float16, 512)},
       .grid = {512, 1, 1},
       .constants = {{"T", float16}, {"GROUP", int64_t{64}}}});
  bodies.push_back(
      {.name = "four_bit_weights_times_vector",
       .body = R"(
uint row = thread_position_in_grid.x;
float values[16];
float sum = 0;
for (int block = 0; block < 4; ++block) {
  Packed<4>::unpack(w + row * 8 + block * 2, values, 16);
  for (int i = 0; i < 16; ++i) sum += values[i] * x[block * 16 + i];
}
y[row] = sum;
)",
       .header = R"(
template <int BITS>
struct Packed {
  static constexpr int per_word = 32 / BITS;
  static constexpr uint mask = (1u << BITS) - 1;
  static METAL_FUNC void unpack(const device uint* words, thread float* into, int count) {
    for (int i = 0; i < count; ++i) {
      into[i] = float((words[i / per_word] >> (BITS * (i % per_word))) & mask);
    }
  }
};
)",
       .inputs = {any_bits("w", uint32, 16 * 8, 9), numbers("x", float32, 64, 10, 0, 4)},
       // Integers below 16 times 64ths, 64 of them: exact.
       .outputs = {filled("y", float32, 16)},
       .grid = {16, 1, 1}});
  bodies.push_back({.name = "six_bit_values_across_bytes",
                    .body = R"(
uint i = thread_position_in_grid.x;
uint bit = i * 6;
uint pair = uint(w[bit / 8]) | (uint(w[bit / 8 + 1]) << 8);
char v = char((pair >> (bit % 8)) & 63) - char(32);
y[i] = v;
)",
                    .inputs = {any_bits("w", uint8, 256, 11)},
                    .outputs = {filled("y", int8, 300)},
                    .grid = {300, 1, 1}});
  // Products of decays round differently where they fuse with sums: 40 rounds.
  bodies.push_back(
      {.name = "recurrent_state_with_decay",
       .body = R"(
uint channel = thread_position_in_grid.x;
float h[4];
for (int s = 0; s < 4; ++s) h[s] = state[channel * 4 + s];
for (uint t = 0; t < steps; ++t) {
  float v = x[t * C + channel];
  float out = 0;
  for (int s = 0; s < 4; ++s) {
    h[s] = h[s] * a[s] + b[t * 4 + s] * v;
    out += h[s];
  }
  y[t * C + channel] = out;
}
for (int s = 0; s < 4; ++s) state[channel * 4 + s] = h[s];
)",
       .inputs = {numbers("x", float32, 40 * 24, 12, 0, 2), numbers("a", float32, 4, 13, 0, 1),
                  numbers("b", float32, 160, 14, 0, 1)},
       .outputs = {filled("y", float32, 40 * 24), numbers("state", float32, 24 * 4, 15, 0, 1)},
       .grid = {24, 1, 1},
       .constants = {{"C", int64_t{24}}},
       .params = {{"steps", uint32_t{40}}},
       .units = 16});
  // Gates by exp, and the delta rule on a state in memory: 12 rounds of a few roundings.
  bodies.push_back(
      {.name = "delta_rule_state_update",
       .body = R"(
uint row = thread_position_in_grid.x;
device float* s = state + row * 8;
for (int t = 0; t < 12; ++t) {
  const device float* kt = k + t * 8;
  float g = metal::exp(-gate[t]);
  float kv = 0;
  for (int j = 0; j < 8; ++j) {
    s[j] *= g;
    kv += s[j] * kt[j];
  }
  float delta = (v[t * 16 + row] - kv) * 0.5f;
  float out = 0;
  for (int j = 0; j < 8; ++j) {
    s[j] += kt[j] * delta;
    out += s[j] * q[t * 8 + j];
  }
  y[t * 16 + row] = out;
}
)",
       .inputs = {numbers("k", float32, 96, 16, 0, 0.5F), numbers("q", float32, 96, 17, 0, 1),
                  numbers("v", float32, 12 * 16, 18, 0, 2), numbers("gate", float32, 12, 19, 0, 1)},
       .outputs = {filled("y", float32, 12 * 16), numbers("state", float32, 128, 20, 0, 1)},
       .grid = {16, 1, 1},
       .units = 64,
       .about = 4});
  // Multiples of 1/64 times small integers: exact.
  bodies.push_back({.name = "stencil_of_five_points_in_two_dimensions",
                    .body = R"(
int2 size = int2(W, H);
int2 p = int2(thread_position_in_grid.xy);
float center = x[p.y * W + p.x];
float sum = -4 * center;
const int2 steps[4] = {int2(1, 0), int2(-1, 0), int2(0, 1), int2(0, -1)};
for (int i = 0; i < 4; ++i) {
  int2 q = clamp(p + steps[i], int2(0), size - 1);
  sum += x[q.y * W + q.x];
}
y[p.y * W + p.x] = center + 0.25f * sum;
)",
                    .inputs = {numbers("x", float32, 33 * 17, 21)},
                    .outputs = {filled("y", float32, 33 * 17)},
                    .grid = {33, 17, 1},
                    .threadgroup = {8, 4, 1},
                    .constants = {{"W", int64_t{33}}, {"H", int64_t{17}}}});
  // 27 products of 64ths: exact in float, rounded once to bfloat.
  bodies.push_back({.name = "convolution_of_three_dimensions_to_bfloat",
                    .body = R"(
uint3 p = thread_position_in_grid;
float sum = 0;
for (int dz = -1; dz <= 1; ++dz) {
  int z = int(p.z) + dz;
  if (z < 0 || z >= 5) continue;
  for (int dy = -1; dy <= 1; ++dy) {
    int yy = int(p.y) + dy;
    if (yy < 0 || yy >= 6) continue;
    for (int dx = -1; dx <= 1; ++dx) {
      int xx = int(p.x) + dx;
      if (xx < 0) continue;
      if (xx >= 7) break;
      sum += x[(z * 6 + yy) * 7 + xx] * w[((dz + 1) * 3 + dy + 1) * 3 + dx + 1];
    }
  }
}
y[(p.z * 6 + p.y) * 7 + p.x] = bfloat(sum);
)",
                    .inputs = {numbers("x", float32, 210, 22), numbers("w", float32, 27, 23)},
                    .outputs = {filled("y", bfloat16, 210)},
                    .grid = {7, 6, 5},
                    .threadgroup = {4, 4, 2}});
  // Sine and cosine to two units each, and a difference of products.
  bodies.push_back({.name = "rotary_embedding_of_halves",
                    .body = R"(
uint2 p = thread_position_in_grid.xy;
float theta = float(p.y + offset) * metal::exp2(-float(p.x) * 0.25f);
float c = metal::cos(theta);
float s = metal::sin(theta);
uint at = p.y * 32 + p.x;
float a = float(x[at]);
float b = float(x[at + 16]);
y[at] = half(a * c - b * s);
y[at + 16] = half(a * s + b * c);
)",
                    .inputs = {numbers("x", float16, 32 * 10, 24)},
                    .outputs = {filled("y", float16, 320)},
                    .grid = {16, 10, 1},
                    .threadgroup = {16, 2, 1},
                    .params = {{"offset", uint32_t{17}}},
                    .units = 1,
                    .about = 1});
  bodies.push_back(
      {.name = "gather_rows_by_negative_indices_too",
       .body = R"(
uint2 p = thread_position_in_grid.xy;
long row = idx[p.y];
row = row < 0 ? row + ROWS : row;
if (row >= ROWS) return;
y[p.y * 12 + p.x] = x[row * 12 + p.x];
)",
       .inputs = {any_bits("x", uint16, 20 * 12, 25), numbers("idx", int64, 30, 26, -20, 44)},
       .outputs = {filled("y", uint16, 360, 7)},
       .grid = {12, 30, 1},
       .threadgroup = {12, 2, 1},
       .constants = {{"ROWS", int64_t{20}}}});
  return bodies;
}

}  // namespace holdfast::kernel
