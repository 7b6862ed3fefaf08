#include "holdfast/array/ops/quantized_kernels.h"

#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {

// x, row by row and block by block, in the order in which quantized_rows_kernel() takes it: first
// values of all words, second values, ... And the sums of groups, for the biases.
const Kernel& quantized_order_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "quantized_matmul_order",
                                                                .inputs = {"x"},
                                                                .outputs = {"y", "sums"},
                                                                .source = R"(
const long row = thread_position_in_grid.y;
const long first = long(thread_position_in_grid.x) * LANES;
const int width = int(metal::min(long(LANES), depth / 8 - first));
auto from = x + (row * depth + first * 8);
auto to = y + (row * depth + first * 8);
for (int l = 0; l < width; ++l) {
  for (int b = 0; b < 8; ++b) to[b * width + l] = load<A, HALF>(from[l * 8 + b]);
}
for (int g = 0; g < width * 8 / GROUP; ++g) {
  A sum = A(0);
  for (int k = 0; k < GROUP; ++k) sum += load<A, HALF>(from[g * GROUP + k]);
  sums[row * (depth / GROUP) + first * 8 / GROUP + g] = sum;
}
)",
                                                                .header = kLoadText});
  return kernel;
}

// A thread has one result. The weights of a group come to scale * sum(x * q) + bias * sum(x).
const Kernel& quantized_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "quantized_matmul",
                         .inputs = {"x", "sums", "w", "scales", "biases"},
                         .outputs = {"y"},
                         .source = R"(
constexpr int WORDS = GROUP / 8;
const long n = thread_position_in_grid.x;
const long row = thread_position_in_grid.y;
const long groups = depth / GROUP;
const long words = depth / 8;
auto from = x + row * depth;
auto packed = w + n * words;
auto scale = scales + n * groups;
A totals[LANES];
for (int l = 0; l < LANES; ++l) totals[l] = A(0);
long first = 0;
for (; first + LANES <= words; first += LANES) {
  A products[LANES];
  for (int l = 0; l < LANES; ++l) products[l] = A(0);
  for (int b = 0; b < 8; ++b) {
    for (int l = 0; l < LANES; ++l) {
      const int q = int(packed[first + l] >> (4 * b) & 15u);
      products[l] += A(q) * from[first * 8 + b * LANES + l];
    }
  }
  for (int g = 0; g < LANES / WORDS; ++g) {
    const A s = A(scale[first / WORDS + g]);
    for (int l = 0; l < WORDS; ++l) totals[g * WORDS + l] += s * products[g * WORDS + l];
  }
}
const int width = int(words - first);
for (int l = 0; l < width; ++l) {
  A product = A(0);
  for (int b = 0; b < 8; ++b) {
    const int q = int(packed[first + l] >> (4 * b) & 15u);
    product += A(q) * from[first * 8 + b * width + l];
  }
  totals[l] += A(scale[(first + l) / WORDS]) * product;
}
A sum = A(0);
for (int l = 0; l < LANES; ++l) sum += totals[l];
for (long g = 0; g < groups; ++g) sum += A(biases[n * groups + g]) * sums[row * groups + g];
y[row * threads_per_grid.x + n] = R(sum);
)"});
  return kernel;
}

// Grouped along the columns: a thread has the columns of one block.
const Kernel& quantized_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "quantized_matmul_columns",
                         .inputs = {"x", "w", "scales", "biases"},
                         .outputs = {"y"},
                         .source = R"(
constexpr int WORDS = GROUP / 8;
const long first = long(thread_position_in_grid.x) * LANES;
const long row = thread_position_in_grid.y;
const long words = columns / 8;
const long groups = columns / GROUP;
const int width = int(metal::min(long(LANES), words - first));
A sums[8][LANES];
A plain[LANES];
A factors[LANES];
for (int l = 0; l < LANES; ++l) plain[l] = factors[l] = A(0);
for (int b = 0; b < 8; ++b) {
  for (int l = 0; l < LANES; ++l) sums[b][l] = A(0);
}
for (long k = 0; k < depth; ++k) {
  const A v = A(x[row * depth + k]);
  auto packed = w + (k * words + first);
  const long group = k * groups + first / WORDS;
  for (int g = 0; g < width / WORDS; ++g) {
    const A s = v * A(scales[group + g]);
    const A bias = v * A(biases[group + g]);
    for (int l = 0; l < WORDS; ++l) {
      factors[g * WORDS + l] = s;
      plain[g * WORDS + l] += bias;
    }
  }
  if (width == LANES) {
    for (int b = 0; b < 8; ++b) {
      for (int l = 0; l < LANES; ++l) {
        sums[b][l] += factors[l] * A(int(packed[l] >> (4 * b) & 15u));
      }
    }
  } else {
    for (int b = 0; b < 8; ++b) {
      for (int l = 0; l < width; ++l) {
        sums[b][l] += factors[l] * A(int(packed[l] >> (4 * b) & 15u));
      }
    }
  }
}
for (int l = 0; l < width; ++l) {
  for (int b = 0; b < 8; ++b) y[row * columns + (first + l) * 8 + b] = R(sums[b][l] + plain[l]);
}
)"});
  return kernel;
}

// The weights themselves: a thread has WORDS words of a group.
const Kernel& dequantize_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{
      .name = "dequantize", .inputs = {"w", "scales", "biases"}, .outputs = {"y"}, .source = R"(
const long first = long(thread_position_in_grid.x) * WORDS;
const A scale = A(scales[first * 8 / GROUP]);
const A bias = A(biases[first * 8 / GROUP]);
for (int l = 0; l < WORDS; ++l) {
  const uint word = w[first + l];
  for (int b = 0; b < 8; ++b) {
    y[(first + l) * 8 + b] = scale * A(int(word >> (4 * b) & 15u)) + bias;
  }
}
)"});
  return kernel;
}

// A thread has one group. The scale is rounded down, so that no step is longer than promised.
const Kernel& quantize_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "quantize",
                         .inputs = {"x"},
                         .outputs = {"w", "scales", "biases"},
                         .source = R"(
const long g = thread_position_in_grid.x;
auto from = x + g * group;
A low = A(from[0]);
A high = low;
for (long k = 1; k < group; ++k) {
  const A v = A(from[k]);
  low = v < low ? v : low;
  high = v > high ? v : high;
}
const T scale = rounded_down((high - low) / A(15));
const A inverse = A(scale) > A(0) ? A(1) / A(scale) : A(0);
scales[g] = scale;
biases[g] = T(low);
for (long word = 0; word < group / 8; ++word) {
  uint bits = 0;
  for (int j = 0; j < 8; ++j) {
    const A q = metal::rint((A(from[word * 8 + j]) - low) * inverse);
    bits |= uint(q > A(15) ? A(15) : q) << (4 * j);
  }
  w[g * (group / 8) + word] = bits;
}
)",
                         .header = R"(
inline T rounded_down(A v) {
  T rounded = T(v);
#if SHORT
  if (A(rounded) > v) rounded = as_type<T>(ushort(as_type<ushort>(rounded) - 1));
#endif
  return rounded;
}
)"});
  return kernel;
}

// Many weak threads: a simdgroup has ROWS results of a column, and its lanes go along the words of
// that together. What is outside is read again and not written.
const Kernel& weak_quantized_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "quantized_matmul_weak",
                         .inputs = {"x", "w", "scales", "biases"},
                         .outputs = {"y"},
                         .source = std::string(kGroupNumberText) + R"(
constexpr int WORDS = GROUP / 8;
const uint3 me = thread_position_in_threadgroup;
const long wide = (columns + 7) / 8;
const long column = number % wide * 8 + me.y;
const long first_row = number / wide * ROWS;
const long n = metal::min(column, columns - 1);
const long words = depth / 8;
A sums[ROWS];
for (int r = 0; r < ROWS; ++r) sums[r] = A(0);
for (long l = me.x; l < words; l += 32) {
  const uint word = w[n * words + l];
  const long group = n * (depth / GROUP) + l / WORDS;
  const A scale = A(scales[group]);
  const A bias = A(biases[group]);
  for (int r = 0; r < ROWS; ++r) {
    const long at = metal::min(first_row + r, rows - 1) * depth + l * 8;
    A product = A(0);
    A plain = A(0);
    for (int b = 0; b < 8; ++b) {
      const A v = load<A, HALF>(x[at + b]);
      product += A(int(word >> (4 * b) & 15u)) * v;
      plain += v;
    }
    sums[r] += scale * product + bias * plain;
  }
}
for (int r = 0; r < ROWS; ++r) {
  const A sum = simd_sum(sums[r]);
  if (me.x == 0 && column < columns && first_row + r < rows) {
    y[(first_row + r) * columns + column] = R(sum);
  }
}
)",
                         .header = kLoadText});
  return kernel;
}

// A lane has the columns of one word, and a simdgroup every eighth step of depth; then each thread
// has one result.
const Kernel& weak_quantized_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "quantized_matmul_columns_weak",
                         .inputs = {"x", "w", "scales", "biases"},
                         .outputs = {"y"},
                         .source = std::string(kGroupNumberText) + R"(
constexpr int WORDS = GROUP / 8;
threadgroup A tile[8][256];
const uint3 me = thread_position_in_threadgroup;
const long words = columns / 8;
const long wide = (words + 31) / 32;
const long first = number % wide * 32;
const long row = number / wide;
const long at = metal::min(first + me.x, words - 1);
A sums[8];
for (int b = 0; b < 8; ++b) sums[b] = A(0);
for (long k = me.y; k < depth; k += 8) {
  const A v = load<A, HALF>(x[row * depth + k]);
  const uint word = w[k * words + at];
  const long group = k * (columns / GROUP) + at / WORDS;
  const A scale = v * A(scales[group]);
  const A bias = v * A(biases[group]);
  for (int b = 0; b < 8; ++b) sums[b] += scale * A(int(word >> (4 * b) & 15u)) + bias;
}
for (int b = 0; b < 8; ++b) tile[me.y][b * 32 + me.x] = sums[b];
threadgroup_barrier(mem_flags::mem_threadgroup);
const uint t = thread_index_in_threadgroup;
A sum = A(0);
for (int i = 0; i < 8; ++i) sum += tile[i][t % 8 * 32 + t / 8];
if (first * 8 + t < columns) y[row * columns + first * 8 + t] = R(sum);
)",
                         .header = kLoadText});
  return kernel;
}

}  // namespace holdfast::array
