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
//
// weights(word, i) are weights i and i + 4 of a word, in numbers of which ONE is one, and odd ones
// in numbers of which ONE / ODD is one.
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
// For half, ONE is the smallest number there is, so that bits are numbers, of odd weights where
// they lie: products are exact, and float has room for them. For bfloat, whose smallest numbers are
// too small for that, bits are the last ones of 128.
#if HALF
constant constexpr uint ONE = 0x0001u;
constant constexpr float ONES_IN_ONE = 0x1p24f;
constant constexpr float ODD = 0x1p-4f;
inline uint weights(uint word, int i) {
  return (i < 2 ? word : word >> 8) & (i % 2 == 0 ? 0x000f000fu : 0x00f000f0u);
}
#else
constant constexpr uint ONE = 0x3f80u;
constant constexpr float ONES_IN_ONE = 1.0f;
constant constexpr float ODD = 1.0f;
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
constant constexpr float ODD = 1.0f;
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

// For the header: moves a pack, or zeros, to threadgroup memory; where a GPU can, while the thread
// goes on. It waits until no more than LEFT of the lots that it ended are under way. A Line is four
// words, which are read WORDS at a time.
constexpr const char* kRingText = R"(
template <int WORDS> struct alignas(16) Line { Pack<uint, WORDS> at[4 / WORDS]; };
template <class T, int N, class P>
inline void set_pack(threadgroup Pack<T, N>* to, P at, bool inside) {
  if (inside) *to = load_pack<N>(at);
  if (!inside) *to = Pack<T, N>{};
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int SIZE>
inline void move_bytes(threadgroup void* to, const device void* from, bool inside) {
  const uint at = uint(__cvta_generic_to_shared(to));
  if constexpr (SIZE < 16) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(at), "l"(from), "n"(SIZE), "r"(inside ? SIZE : 0) : "memory");
  } else {
    for (int i = 0; i < SIZE; i += 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :: "r"(at + i), "l"(reinterpret_cast<const device char*>(from) + i),
                      "r"(inside ? 16 : 0) : "memory");
    }
  }
}
template <class T, int N, class P>
inline void move_pack(threadgroup Pack<T, N>* to, P at, bool inside) {
  if constexpr (sizeof(T) * N >= 4) {
    const device ElementOf<P>* from = at;
    move_bytes<sizeof(T) * N>(to, from, inside);
  } else {
    set_pack(to, at, inside);
  }
}
template <int WORDS, class P>
inline void move_line(threadgroup Line<WORDS>* to, P at, bool inside) {
  const device uint* from = at;
  move_bytes<16>(to, from, inside);
}
template <class P> inline void move_eight(threadgroup Pack<uint, 4>* to, P at, bool inside) {
  const device ushort* from = at;
  move_bytes<16>(to, from, inside);
}
inline void end_lot() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> inline void wait_for_lots() {
  asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}
// Asked for here, and not where the compiler likes it best, which is after all that is waited for.
template <class P> inline Pack<uint, 4> load_eight_now(P at) {
  const device ushort* from = at;
  Pack<uint, 4> r;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.at[0]), "=r"(r.at[1]), "=r"(r.at[2]), "=r"(r.at[3]) : "l"(from));
  return r;
}
#else
template <class T, int N, class P>
inline void move_pack(threadgroup Pack<T, N>* to, P at, bool inside) {
  set_pack(to, at, inside);
}
template <int WORDS, class P>
inline void move_line(threadgroup Line<WORDS>* to, P at, bool inside) {
  Pack<uint, 4> line = {};
  if (inside) line = load_pack<4>(at);
  for (int l = 0; l < 4; ++l) to->at[l / WORDS].at[l % WORDS] = line.at[l];
}
template <class P> inline void move_eight(threadgroup Pack<uint, 4>* to, P at, bool inside) {
  if (inside) *to = load_packed_eight(at);
  if (!inside) *to = Pack<uint, 4>{};
}
inline void end_lot() {}
template <int LEFT> inline void wait_for_lots() {}
template <class P> inline Pack<uint, 4> load_eight_now(P at) { return load_packed_eight(at); }
#endif
)";

// For the header: eight numbers, bound as bits. The second way is rare: its code is to be short.
constexpr const char* kLoadEightText = R"(
template <class P> inline Pack<uint, 4> load_packed_eight(P at) {
  const device ushort* p = at;
  return *reinterpret_cast<const device Pack<uint, 4>*>(p);
}
template <class P> inline Pack<uint, 4> load_eight(P at) {
  Pack<uint, 4> result = {};
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j) result.at[j] = result.at[j + 1];
    result.at[3] = uint(at[2 * i]) | uint(at[2 * i + 1]) << 16;
  }
  return result;
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

// Many weak threads, by products of matrices. A threadgroup has 16 * WIDE columns of 8 * TALL rows,
// and each of its HIGH simdgroups takes steps of DEEP pieces of 16 words of a column. Weights,
// scales and biases of a step go to a ring of STAGES in threadgroup memory; those of the next steps
// are on their way meanwhile, since a GPU's memory is fast only where much is asked of it at once.
// A matrix never leaves a group, so that a group comes to scale * sum(q * x) + bias * sum(x); the
// sums of x are a product with ones. Its 16 steps of depth go to lanes as weights lie in words.
const Kernel& weak_quantized_tiles_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{
      .name = "quantized_matmul_tiles_weak",
      .inputs = {"x", "w", "scales", "biases"},
      .outputs = {"y"},
      .source = std::string(kGroupNumberText) + R"(
constexpr int WORDS = GROUP / 32;           // of a group and column, for each of four lanes
constexpr int GROUPS = DEEP * 128 / GROUP;  // of a step
using Scale = ElementOf<decltype(scales + 0)>;
using Bias = ElementOf<decltype(biases + 0)>;
threadgroup Line<WORDS> ring[HIGH][STAGES][WIDE * 2 * DEEP][32];
threadgroup Pack<Scale, GROUPS> scale_ring[HIGH][STAGES][WIDE * 16];
threadgroup Pack<Bias, GROUPS> bias_ring[HIGH][STAGES][WIDE * 16];
constexpr int ROWS = FEW > 0 ? FEW : TALL * 8;
threadgroup Pack<uint, 4> x_ring[HIGH][STAGES][FEW > 0 ? FEW * DEEP * 16 : 1];
threadgroup float tile[HIGH][ROWS * WIDE * 16];
const uint3 me = thread_position_in_threadgroup;
const uint g = me.x / 4;
const uint t = me.x % 4;
const uint turn = g / 2 % 2 * 2 + g / 4;  // lanes that read together have banks of their own
const long deep = (rows + 8 * TALL - 1) / (8 * TALL);
const long across = deep == 1 ? number : number / deep;
const long first_row = (number - across * deep) * (8 * TALL);
const long first = across * (16 * WIDE);
const uint words = uint(depth / 8);
const uint groups = uint(depth / GROUP);
bool packed = is_aligned<4>(w);
if (packed) packed = is_aligned<8>(x);
const bool scales_packed =
    GROUPS == 1 ||
    (groups % GROUPS == 0 && is_aligned<GROUPS>(scales) && is_aligned<GROUPS>(biases));
const uint last_row = uint(metal::min(8l * TALL, rows - first_row)) - 1;
const uint last = uint(metal::min(16l * WIDE, columns - first)) - 1;
auto x_from = x + first_row * depth;
auto w_from = w + first * (depth / 8);
auto scale_from = scales + first * groups;
auto bias_from = biases + first * groups;
const uint steps = (words + HIGH * DEEP * 16 - 1) / (HIGH * DEEP * 16);
// What is outside of the columns is read again and not written; beyond the depth are zeros.
auto begin = [&](uint step) {
  const uint stage = step % STAGES;
  const uint piece = (step * HIGH + me.y) * DEEP;
  if (packed) {
    for (int c = 0; c < WIDE * 2; ++c) {
      const uint word = piece * 16 + t * 4;
      auto from = w_from + (metal::min(g + 8 * c, last) * words + word);
      for (int i = 0; i < DEEP; ++i) {
        move_line(&ring[me.y][stage][c * DEEP + i][g * 4 + (t ^ turn)], from + i * 16,
                  word + i * 16 < words);
      }
    }
  } else {
#pragma unroll 1
    for (uint i = 0; i < WIDE * 2 * DEEP * 4; ++i) {
      const uint word = (piece + i / 4 % DEEP) * 16 + t * 4 + i % 4;
      const uint column = metal::min(g + 8 * (i / 4 / DEEP), last) * words;
      ring[me.y][stage][i / 4][g * 4 + (t ^ turn)].at[i % 4 / WORDS].at[i % WORDS] =
          word < words ? w_from[column + word] : 0;
    }
  }
  for (uint i = me.x; i < FEW * DEEP * 16; i += 32) {
    const uint row = i / (DEEP * 16);
    const uint word = piece * 16 + i % (DEEP * 16);
    threadgroup Pack<uint, 4>* to = &x_ring[me.y][stage][i ^ row];
    auto at = x_from + (row * words + word) * 8;
    if (packed) {
      move_eight(to, at, word < words);
    } else {
      *to = word < words ? load_eight(at) : Pack<uint, 4>{};
    }
  }
  const uint group = piece * (128 / GROUP);
  if (scales_packed) {
    for (uint c = me.x; c < WIDE * 16; c += 32) {
      const uint at = metal::min(c, last) * groups + group;
      move_pack(&scale_ring[me.y][stage][c], scale_from + at, group < groups);
      move_pack(&bias_ring[me.y][stage][c], bias_from + at, group < groups);
    }
  } else {
#pragma unroll 1
    for (uint i = me.x; i < WIDE * 16 * GROUPS; i += 32) {
      const uint c = i / GROUPS;
      const uint each = i % GROUPS;
      const uint at = metal::min(c, last) * groups + group + each;
      const bool inside = group + each < groups;
      scale_ring[me.y][stage][c].at[each] = inside ? scale_from[at] : Scale(0);
      bias_ring[me.y][stage][c].at[each] = inside ? bias_from[at] : Bias(0);
    }
  }
};
const uint ones[4] = {ONE << 16 | ONE, ONE << 16 | ONE, ONE << 16 | ONE, ONE << 16 | ONE};
float sums[TALL][WIDE][4];
for (int r = 0; r < TALL; ++r) {
  for (int e = 0; e < WIDE * 4; ++e) sums[r][e / 4][e % 4] = 0.0f;
}
Pack<uint, 4> values[TALL][GROUPS][WORDS];
for (uint next = 0; next < steps + STAGES - 1; ++next) {
  const uint step = next - (STAGES - 1);
  const uint first_group = (step * HIGH + me.y) * GROUPS;
  const auto read_x = [&](auto load_it) {
    for (int r = 0; r < TALL; ++r) {
      const uint row = g + 8 * r;
      const uint first_word = (first_group * 4 + t) * WORDS;
      auto from = x_from + (row * words + first_word) * 8;
      for (int i = 0; i < GROUPS * WORDS; ++i) {
        const int each = i / WORDS * 4 * WORDS + i % WORDS;
        Pack<uint, 4> value = {};
        if (row <= last_row && first_word + each < words) value = load_it(from + each * 8);
        values[r][i / WORDS][i % WORDS] = value;
      }
    }
  };
  // Before more weights are asked for: x would come after them.
  if (FEW == 0 && next >= STAGES - 1) {
    if (packed) {
      read_x([](auto at) { return load_eight_now(at); });
    } else {
      read_x([](auto at) { return load_eight(at); });
    }
  }
  if (next < steps) begin(next);
  end_lot();
  if (next < STAGES - 1) continue;
  const uint stage = step % STAGES;
  wait_for_lots<STAGES - 1>();
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < GROUPS; ++i) {
    Pack<uint, WORDS> read[WIDE * 2];
    for (uint c = 0; c < WIDE * 2; ++c) {
      const uint at = (i * 4 + t) * WORDS;
      const uint lane = g * 4 + (at / 4 % 4 ^ turn);
      read[c] = ring[me.y][stage][c * DEEP + at / 16][lane].at[at % 4 / WORDS];
    }
    float products[TALL][WIDE][2][4];
    float plain[TALL][4];
    for (int r = 0; r < TALL; ++r) {
      for (int e = 0; e < 4; ++e) {
        plain[r][e] = 0.0f;
        for (int c = 0; c < WIDE; ++c) products[r][c][0][e] = products[r][c][1][e] = 0.0f;
      }
    }
    for (uint l = 0; l < WORDS; ++l) {
      const uint at = (i * 4 + t) * WORDS + l;
      if (FEW > 0) {
        values[0][i][l] = Pack<uint, 4>{};
        if (g < FEW) values[0][i][l] = x_ring[me.y][stage][(g * DEEP * 16 + at) ^ g];
      }
      for (int h = 0; h < 2; ++h) {
        uint b[TALL][2];
        for (int r = 0; r < TALL; ++r) {
          const Pack<uint, 4> v = values[r][i][l];
          for (int k = 0; k < 2; ++k) {
            b[r][k] = h == 0 ? (v.at[k] & 0xffffu) | v.at[k + 2] << 16
                             : v.at[k] >> 16 | (v.at[k + 2] & 0xffff0000u);
          }
          add_product(plain[r], ones, b[r][0], b[r][1], me.x);
        }
        for (int c = 0; c < WIDE; ++c) {
          uint qs[4];
          for (int k = 0; k < 4; ++k) qs[k] = weights(read[c * 2 + k % 2].at[l], h + k / 2 * 2);
          for (int r = 0; r < TALL; ++r) {
            add_product(products[r][c][h], qs, b[r][0], b[r][1], me.x);
          }
        }
      }
    }
    for (int c = 0; c < WIDE; ++c) {
      for (int e = 0; e < 4; ++e) {
        const float of_q = float(scale_ring[me.y][stage][c * 16 + e / 2 * 8 + g].at[i]);
        const float of_one = float(bias_ring[me.y][stage][c * 16 + e / 2 * 8 + g].at[i]);
        for (int r = 0; r < TALL; ++r) {
          sums[r][c][e] += of_q * (products[r][c][0][e] + products[r][c][1][e] * ODD) +
                           of_one * plain[r][e];
        }
      }
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
for (int r = 0; r < TALL; ++r) {
  for (int c = 0; c < WIDE; ++c) {
    for (int e = 0; e < 4; ++e) {
      const int row = r * 8 + int(t) * 2 + e % 2;
      if (row < ROWS) tile[me.y][(row * WIDE + c) * 16 + g + e / 2 * 8] = sums[r][c][e];
    }
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (int at = int(thread_index_in_threadgroup); at < ROWS * WIDE * 16; at += 32 * HIGH) {
  const long row = first_row + at / (16 * WIDE);
  const long column = first + at % (16 * WIDE);
  if (row >= rows || column >= columns) continue;
  float sum = 0.0f;
  for (int i = 0; i < HIGH; ++i) sum += tile[i][at];
  y[row * columns + column] = R(sum * ONES_IN_ONE);
}
)",
      .header = std::string(kLoadText) + kPackText + kLoadEightText + kMatrixText + kRingText});
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
