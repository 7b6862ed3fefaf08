#include "holdfast/array/ops/quantized_kernels.h"

#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {
namespace {

// For the header: matrices of 16 x 16 and 16 x 8 numbers of T, which a simdgroup has between its
// lanes, two numbers in a word. Lane 4g + t has, of a, rows g and g + 8 of columns 2t and 2t + 1,
// then of those eight columns further; of b, column g of the same rows; of c, rows g and g + 8 of
// columns 2t and 2t + 1. That is how tensor cores have them; where there are none, lanes ask each
// other.
constexpr const char* kMatrixText = R"(
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// c += a * b
inline void add_product(thread float* c, const thread uint* a, uint b0, uint b1, uint) {
#if HALF
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#endif
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Weights i and i + 4 of a word, in numbers of which ONE is one. For half that is the smallest
// number there is, so that bits are numbers: products are exact, and float has room for them. For
// bfloat, whose smallest numbers are too small for that, bits are the last ones of 128.
#if HALF
constant constexpr uint ONE = 0x0001u;
constant constexpr float ONES_IN_ONE = 0x1p24f;
inline uint weights(uint word, int i) { return word >> (4 * i) & 0x000f000fu; }
#else
constant constexpr uint ONE = 0x3f80u;
constant constexpr float ONES_IN_ONE = 1.0f;
inline uint weights(uint word, int i) {
  const uint bits = word >> (4 * i) & 0x000f000fu;
  uint result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(result)
      : "r"(bits | 0x43004300u), "r"(0x3f803f80u), "r"(0xc300c300u));
  return result;
}
#endif
#else
constant constexpr uint ONE = HALF ? 0x3c00u : 0x3f80u;
constant constexpr float ONES_IN_ONE = 1.0f;
inline float number(uint bits) {
#if HALF
  return load<float, true>(ushort(bits));
#else
  return as_type<float>(bits << 16);
#endif
}
inline void add_product(thread float* c, const thread uint* a, uint b0, uint b1, uint lane) {
  const uint row = lane / 4 * 4;
  const uint column = lane % 4 * 8;
  for (uint i = 0; i < 4; ++i) {
    uint as[4];
    for (int j = 0; j < 4; ++j) as[j] = simd_shuffle(a[j], ushort(row + i));
    for (uint j = 0; j < 2; ++j) {
      const uint bs[2] = {simd_shuffle(b0, ushort(column + 4 * j + i)),
                          simd_shuffle(b1, ushort(column + 4 * j + i))};
      for (int k = 0; k < 4; ++k) {
        c[j + k % 2 * 2] += number(as[k] & 0xffffu) * number(bs[k / 2] & 0xffffu) +
                            number(as[k] >> 16) * number(bs[k / 2] >> 16);
      }
    }
  }
}
inline uint weights(uint word, int i) {
  const T low = T(float(word >> (4 * i) & 15u));
  const T high = T(float(word >> (4 * i + 16) & 15u));
  return uint(as_type<ushort>(low)) | uint(as_type<ushort>(high)) << 16;
}
#endif
)";

// For the header: eight numbers, bound as bits.
constexpr const char* kLoadEightText = R"(
template <class P> inline Pack<uint, 4> load_packed_eight(P at) {
  const device ushort* p = at;
  return *reinterpret_cast<const device Pack<uint, 4>*>(p);
}
template <class P> inline Pack<uint, 4> load_eight(P at) {
  Pack<uint, 4> result;
  for (int i = 0; i < 4; ++i) result.at[i] = uint(at[2 * i]) | uint(at[2 * i + 1]) << 16;
  return result;
}
)";

// For the header: weight i of a word as a float, which times factor(i) is the weight itself divided
// by ONES_IN_ONE. Bits are numbers where they lie, the smallest float counting one: only the last
// two weights are moved. Factors for that are too large for numbers of bfloat.
constexpr const char* kFloatsText = R"(
#if defined(__CUDA_ARCH__) && HALF
constant constexpr float ONES_IN_ONE = 0x1p38f;
inline float weight(uint word, int i) {
  return as_type<float>(i < 6 ? word & 15u << (4 * i) : word >> 24 & 15u << (4 * (i - 6)));
}
inline float factor(int i) { return 0x1p111f / float(1u << (4 * (i < 6 ? i : i - 6))); }
#else
constant constexpr float ONES_IN_ONE = 1.0f;
inline float weight(uint word, int i) {
#if defined(__CUDA_ARCH__)
  return as_type<float>((word >> (4 * i) & 15u) | 0x4b000000u) - 0x1p23f;
#else
  return float(word >> (4 * i) & 15u);
#endif
}
inline float factor(int) { return 1.0f; }
#endif
inline float value_of(uint bits) {
#if HALF
  return load<float, true>(ushort(bits));
#else
  return as_type<float>(bits << 16);
#endif
}
)";

}  // namespace

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

// Many weak threads, for few rows: a threadgroup has COLUMNS columns of all ROWS rows, its lanes go
// along the words, WORDS at a time. All that is read is on its way before the first is needed, and
// no more than that is held, so that many simdgroups wait for memory together.
const Kernel& weak_quantized_few_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{
      .name = "quantized_matmul_few_weak",
      .inputs = {"x", "w", "scales", "biases"},
      .outputs = {"y"},
      .source = std::string(kGroupNumberText) + R"(
threadgroup float tile[8][ROWS * COLUMNS];
const uint3 me = thread_position_in_threadgroup;
const long first = number * COLUMNS;
const uint last = uint(metal::min(long(COLUMNS), columns - first)) - 1;
const uint words = uint(depth / 8);
const uint groups = uint(depth / GROUP);
auto packs = w + first * words;
auto scale_from = scales + first * groups;
auto bias_from = biases + first * groups;
const bool packed = is_aligned<WORDS>(w) && is_aligned<8>(x);
float sums[ROWS][COLUMNS];
for (int r = 0; r < ROWS; ++r) {
  for (int c = 0; c < COLUMNS; ++c) sums[r][c] = 0.0f;
}
for (uint at = (me.y * 32 + me.x) * WORDS; at < words; at += 256 * WORDS) {
  Pack<uint, WORDS> read[COLUMNS];
  ElementOf<decltype(scale_from)> scale[COLUMNS];
  ElementOf<decltype(bias_from)> bias[COLUMNS];
  Pack<uint, 4> values[ROWS][WORDS];
  if (packed) {
    for (uint c = 0; c < COLUMNS; ++c) {
      read[c] = load_pack<WORDS>(packs + (metal::min(c, last) * words + at));
    }
    for (uint i = 0; i < ROWS * WORDS; ++i) {
      values[i / WORDS][i % WORDS] =
          load_packed_eight(x + (i / WORDS * words + at + i % WORDS) * 8);
    }
  } else {
    for (uint c = 0; c < COLUMNS; ++c) {
      for (uint l = 0; l < WORDS; ++l) read[c].at[l] = packs[metal::min(c, last) * words + at + l];
    }
    for (uint i = 0; i < ROWS * WORDS; ++i) {
      values[i / WORDS][i % WORDS] = load_eight(x + (i / WORDS * words + at + i % WORDS) * 8);
    }
  }
  for (uint c = 0; c < COLUMNS; ++c) {
    scale[c] = scale_from[metal::min(c, last) * groups + at * 8 / GROUP];
    bias[c] = bias_from[metal::min(c, last) * groups + at * 8 / GROUP];
  }
  float vs[WORDS * 8][ROWS];
  float plain[ROWS] = {};
  for (int i = 0; i < WORDS * 8; ++i) {
    for (int r = 0; r < ROWS; ++r) {
      vs[i][r] = value_of(values[r][i / 8].at[i % 8 / 2] >> (i % 2 * 16) & 0xffffu) * factor(i % 8);
      plain[r] += vs[i][r] * weight(0x11111111u, i % 8);
    }
  }
  for (int c = 0; c < COLUMNS; ++c) {
    float product[ROWS] = {};
    for (int i = 0; i < WORDS * 8; ++i) {
      const float q = weight(read[c].at[i / 8], i % 8);
      for (int r = 0; r < ROWS; ++r) product[r] += vs[i][r] * q;
    }
    for (int r = 0; r < ROWS; ++r) {
      sums[r][c] += float(scale[c]) * product[r] + float(bias[c]) * plain[r];
    }
  }
}
// Each time, lanes give half of the columns away.
for (int r = 0; r < ROWS; ++r) {
  for (int each = COLUMNS / 2; each > 0; each /= 2) {
    const ushort distance = ushort(32 / COLUMNS * each);
    const bool upper = (me.x & distance) != 0;
    for (int c = 0; c < each; ++c) {
      const float given = upper ? sums[r][c] : sums[r][c + each];
      sums[r][c] = (upper ? sums[r][c + each] : sums[r][c]) + simd_shuffle_xor(given, distance);
    }
  }
  for (ushort distance = 16 / COLUMNS; distance > 0; distance /= 2) {
    sums[r][0] += simd_shuffle_xor(sums[r][0], distance);
  }
  if (me.x % (32 / COLUMNS) == 0) tile[me.y][r * COLUMNS + me.x / (32 / COLUMNS)] = sums[r][0];
}
threadgroup_barrier(mem_flags::mem_threadgroup);
const int at = int(thread_index_in_threadgroup);
const long column = first + at % COLUMNS;
if (at < ROWS * COLUMNS && column < columns) {
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) sum += tile[i][at];
  y[at / COLUMNS * columns + column] = R(sum * ONES_IN_ONE);
}
)",
      .header = std::string(kLoadText) + kPackText + kLoadEightText + kFloatsText});
  return kernel;
}

// Many weak threads, by products of matrices. A threadgroup has 16 * WIDE columns of 8 * TALL rows,
// and a simdgroup STEPS groups of depth at a time. A matrix never leaves a group, so that a group
// comes to scale * sum(q * x) + bias * sum(x); the sums of x are a product with ones. Its 16 steps
// of depth go to lanes as weights lie in words.
const Kernel& weak_quantized_tiles_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{
      .name = "quantized_matmul_tiles_weak",
      .inputs = {"x", "w", "scales", "biases"},
      .outputs = {"y"},
      .source = std::string(kGroupNumberText) + R"(
constexpr int WORDS = GROUP / 32;  // of a group and column, for each of four lanes
constexpr int STEPS = GROUP * TALL > 128 ? 1 : 128 / GROUP / TALL;  // leaves registers for two
threadgroup float tile[8][TALL * WIDE * 128];
const uint3 me = thread_position_in_threadgroup;
const int g = int(me.x) / 4;
const int t = int(me.x) % 4;
const long deep = (rows + 8 * TALL - 1) / (8 * TALL);
const long first_row = number % deep * (8 * TALL);
const long first = number / deep * (16 * WIDE);
const uint groups = uint(depth / GROUP);
const bool packed = is_aligned<WORDS>(w) && is_aligned<8>(x) && groups % STEPS == 0 &&
                    is_aligned<STEPS>(scales) && is_aligned<STEPS>(biases);
const uint last_row = uint(metal::min(8l * TALL, rows - first_row)) - 1;
const uint last = uint(metal::min(16l * WIDE, columns - first)) - 1;
auto x_from = x + first_row * depth;
auto w_from = w + first * (depth / 8);
auto scale_from = scales + first * groups;
auto bias_from = biases + first * groups;
const uint ones[4] = {ONE << 16 | ONE, ONE << 16 | ONE, ONE << 16 | ONE, ONE << 16 | ONE};
float sums[TALL][WIDE][4];
for (int r = 0; r < TALL; ++r) {
  for (int e = 0; e < WIDE * 4; ++e) sums[r][e / 4][e % 4] = 0.0f;
}
for (uint j = me.y * STEPS; j < groups; j += 8 * STEPS) {
  // All are on their way before the first is needed. What is outside is read again and not
  // written.
  Pack<uint, WORDS> words[STEPS][WIDE * 2] = {};
  decltype(load_pack<STEPS>(scales)) scale[WIDE * 2] = {};
  decltype(load_pack<STEPS>(biases)) bias[WIDE * 2] = {};
  Pack<uint, 4> values[TALL][STEPS][WORDS] = {};
  if (packed) {
    for (int c = 0; c < WIDE * 2; ++c) {
      const uint group = metal::min(uint(g + 8 * c), last) * groups + j;
      for (int i = 0; i < STEPS; ++i) {
        words[i][c] = load_pack<WORDS>(w_from + ((group + i) * 4 + t) * WORDS);
      }
      scale[c] = load_pack<STEPS>(scale_from + group);
      bias[c] = load_pack<STEPS>(bias_from + group);
    }
    for (int r = 0; r < TALL; ++r) {
      const uint group = metal::min(uint(g + 8 * r), last_row) * groups + j;
      for (int i = 0; i < STEPS * WORDS; ++i) {
        values[r][i / WORDS][i % WORDS] =
            load_packed_eight(x_from + (((group + i / WORDS) * 4 + t) * WORDS + i % WORDS) * 8);
      }
    }
  } else {
    for (int i = 0; i < STEPS && j + i < groups; ++i) {
      for (int c = 0; c < WIDE * 2; ++c) {
        const uint group = metal::min(uint(g + 8 * c), last) * groups + j + i;
        for (int l = 0; l < WORDS; ++l) words[i][c].at[l] = w_from[(group * 4 + t) * WORDS + l];
        scale[c].at[i] = scale_from[group];
        bias[c].at[i] = bias_from[group];
      }
      for (int r = 0; r < TALL; ++r) {
        const uint group = metal::min(uint(g + 8 * r), last_row) * groups + j + i;
        for (int l = 0; l < WORDS; ++l) {
          values[r][i][l] = load_eight(x_from + ((group * 4 + t) * WORDS + l) * 8);
        }
      }
    }
  }
  for (int i = 0; i < STEPS; ++i) {
    float products[TALL][WIDE][4];
    float plain[TALL][4];
    for (int r = 0; r < TALL; ++r) {
      for (int e = 0; e < 4; ++e) {
        plain[r][e] = 0.0f;
        for (int c = 0; c < WIDE; ++c) products[r][c][e] = 0.0f;
      }
    }
    for (int l = 0; l < WORDS; ++l) {
      for (int h = 0; h < 2; ++h) {
        uint b[TALL][2];
        for (int r = 0; r < TALL; ++r) {
          const Pack<uint, 4> v = values[r][i][l];
          b[r][0] = (v.at[h] & 0xffffu) | v.at[h + 2] << 16;
          b[r][1] = v.at[h] >> 16 | (v.at[h + 2] & 0xffff0000u);
          add_product(plain[r], ones, b[r][0], b[r][1], me.x);
        }
        for (int c = 0; c < WIDE; ++c) {
          uint qs[4];
          for (int k = 0; k < 4; ++k) {
            qs[k] = weights(words[i][c * 2 + k % 2].at[l], h * 2 + k / 2);
          }
          for (int r = 0; r < TALL; ++r) {
            add_product(products[r][c], qs, b[r][0], b[r][1], me.x);
          }
        }
      }
    }
    for (int r = 0; r < TALL; ++r) {
      for (int c = 0; c < WIDE; ++c) {
        for (int e = 0; e < 4; ++e) {
          sums[r][c][e] += float(scale[c * 2 + e / 2].at[i]) * products[r][c][e] +
                           float(bias[c * 2 + e / 2].at[i]) * plain[r][e];
        }
      }
    }
  }
}
for (int r = 0; r < TALL; ++r) {
  for (int c = 0; c < WIDE; ++c) {
    for (int e = 0; e < 4; ++e) {
      tile[me.y][((r * 8 + t * 2 + e % 2) * WIDE + c) * 16 + g + e / 2 * 8] = sums[r][c][e];
    }
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (int at = int(thread_index_in_threadgroup); at < TALL * WIDE * 128; at += 256) {
  const long row = first_row + at / (16 * WIDE);
  const long column = first + at % (16 * WIDE);
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) sum += tile[i][at];
  if (row < rows && column < columns) y[row * columns + column] = R(sum * ONES_IN_ONE);
}
)",
      .header = std::string(kLoadText) + kPackText + kLoadEightText + kMatrixText});
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
