#include "holdfast/array/ops/matmul_kernels.h"

#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {

// a [batch..., M, K] times b [batch..., K, N] as they lie, into c with any strides.
const Kernel& matmul_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "matmul_rows",
                                                                .inputs = {"a", "b"},
                                                                .outputs = {"c"},
                                                                .source = R"(
constexpr int COLUMNS = 64;
constexpr int LANES = 32;
const long row = thread_position_in_grid.y;
const long batch = thread_position_in_grid.z;
const long first = long(thread_position_in_grid.x) * COLUMNS;
const long depth = b_shape[b_ndim - 2];
const int width = int(metal::min(long(COLUMNS), b_shape[b_ndim - 1] - first));
const long ak = a_strides[a_ndim - 1];
const long bk = b_strides[b_ndim - 2];
const long bn = b_strides[b_ndim - 1];
auto from_a =
    a + (elem_to_loc(batch, a_shape, a_strides, a_ndim - 2) + row * a_strides[a_ndim - 2]);
auto from_b = b + (elem_to_loc(batch, b_shape, b_strides, b_ndim - 2) + first * bn);
const long to = batch * c_batch + row * c_row + first * c_column;
if (bn == 1) {
  A sums[COLUMNS];
  for (int j = 0; j < COLUMNS; ++j) sums[j] = A(0);
  if (width == COLUMNS) {
    for (long k = 0; k < depth; ++k) {
      const A v = load<A, A_HALF>(from_a[k * ak]);
      for (int j = 0; j < COLUMNS; ++j) sums[j] += v * load<A, B_HALF>(from_b[k * bk + j]);
    }
  } else {
    for (long k = 0; k < depth; ++k) {
      const A v = load<A, A_HALF>(from_a[k * ak]);
      for (int j = 0; j < width; ++j) sums[j] += v * load<A, B_HALF>(from_b[k * bk + j]);
    }
  }
  for (int j = 0; j < width; ++j) c[to + j * c_column] = R(sums[j]);
} else {
  for (int j = 0; j < width; ++j) {
    auto column = from_b + j * bn;
    A sum = A(0);
    long k = 0;
    if (ak == 1 && bk == 1) {
      A sums[LANES];
      for (int l = 0; l < LANES; ++l) sums[l] = A(0);
      for (; k + LANES <= depth; k += LANES) {
        for (int l = 0; l < LANES; ++l) {
          sums[l] += load<A, A_HALF>(from_a[k + l]) * load<A, B_HALF>(column[k + l]);
        }
      }
      for (int l = 0; l < LANES; ++l) sum += sums[l];
    }
    for (; k < depth; ++k) {
      sum += load<A, A_HALF>(from_a[k * ak]) * load<A, B_HALF>(column[k * bk]);
    }
    c[to + j * c_column] = R(sum);
  }
}
)",
                                                                .header = kLoadText});
  return kernel;
}

// x [batch..., depth, wide] as panels y [batch, panel, depth, WIDTH], with zeros at the end.
const Kernel& matmul_pack_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "matmul_pack",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = R"(
const long panel = thread_position_in_grid.x;
const long batch = thread_position_in_grid.z;
const long depth = x_shape[x_ndim - 2];
const long begin = long(thread_position_in_grid.y) * block;
const long end = metal::min(begin + block, depth);
const long first = panel * WIDTH;
const int width = int(metal::min(long(WIDTH), x_shape[x_ndim - 1] - first));
const long down = x_strides[x_ndim - 2];
const long right = x_strides[x_ndim - 1];
auto from = x + (elem_to_loc(batch, x_shape, x_strides, x_ndim - 2) + first * right);
auto to = y + (batch * threads_per_grid.x + panel) * depth * WIDTH;
long k = begin;
if (width == WIDTH && right == 1) {
  for (; k < end; ++k) {
    if constexpr (WIDTH % 16 == 0) {
      load_side_by_side<WIDTH>(from + k * down, to + k * WIDTH);
    } else {
      for (int j = 0; j < WIDTH; ++j) to[k * WIDTH + j] = load<A, HALF>(from[k * down + j]);
    }
  }
} else if (width == WIDTH && down == 1) {
#ifndef __CUDACC__
  alignas(64) A lines[WIDTH][16];
  constexpr int L = int(16 / sizeof(A));
  A* const panel_at = to;
  for (; k + 16 <= end; k += 16) {
    for (int j = 0; j < WIDTH; ++j) load_side_by_side<16>(from + (j * right + k), lines[j]);
    for (int i = 0; i < 16; i += L) {
      for (int j = 0; j < WIDTH; j += L) {
        turn(&lines[j][i], 16, panel_at + (k + i) * WIDTH + j, WIDTH);
      }
    }
  }
#endif
}
for (; k < end; ++k) {
  for (int j = 0; j < width; ++j) to[k * WIDTH + j] = load<A, HALF>(from[k * down + j * right]);
  for (int j = width; j < WIDTH; ++j) to[k * WIDTH + j] = A(0);
}
)",
                         .header = std::string(kLoadText) + kPackText + kConvertText +
                                   "#ifndef __CUDACC__\n" + kSquareText + "#endif\n" + R"(
template <int N, class P, class Q> inline void load_side_by_side(P at, Q target) {
  const device ElementOf<P>* from = at;
  device A* to = target;
  if constexpr (HALF) {
    convert<N>(reinterpret_cast<const device half*>(from), to);
  } else {
    convert<N>(from, to);
  }
}
)"});
  return kernel;
}

// Panels of a, ROWS wide, times panels of b, COLUMNS wide: a thread has TALL of the ones and BROAD
// of the others. Depth goes by in blocks of DEPTH, so that what all its panels have of one stays in
// the cache; the sums of a part of ROWS x COLUMNS are in vector registers meanwhile, 24 of 32, or
// 12 of 16.
const Kernel& matmul_tiles_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "matmul_tiles",
                         .inputs = {"a", "b"},
                         .outputs = {"c"},
                         .source = R"(
constexpr int HIGH = TALL * ROWS;
constexpr int WIDE = BROAD * COLUMNS;
const long first_row = long(thread_position_in_grid.y) * HIGH;
const long first_column = long(thread_position_in_grid.x) * WIDE;
const long batch = thread_position_in_grid.z;
const device A* from_a = a + (batch * a_batch + first_row * depth);
const device A* from_b = b + (batch * b_batch + first_column * depth);
const int height = int(metal::min(long(HIGH), rows - first_row));
const int width = int(metal::min(long(WIDE), columns - first_column));
alignas(64) A sums[HIGH][WIDE];
for (long k = 0; k < depth; k += DEPTH) {
  const int n = int(metal::min(long(DEPTH), depth - k));
  for (int j = 0; j < width; j += COLUMNS) {
    for (int i = 0; i < height; i += ROWS) {
      multiply_panels(from_a + (i * depth + k * ROWS), from_b + (j * depth + k * COLUMNS), n,
                      &sums[i][j], WIDE, k == 0);
    }
  }
}
auto to = c + ((batch * rows + first_row) * columns + first_column);
for (int i = 0; i < height; ++i) {
  if (width == WIDE) {
    device R* line = to + i * columns;
    convert<WIDE>(sums[i], line);
  } else {
    for (int j = 0; j < width; ++j) to[i * columns + j] = R(sums[i][j]);
  }
}
)",
                         .header = std::string(kConvertText) + R"(
#if defined(__CUDACC__)
constexpr int ROWS_AT_ONCE = 2;
typedef A V;
#elif defined(__AVX512F__)
constexpr int ROWS_AT_ONCE = 12;
typedef A V __attribute__((vector_size(64)));
#elif defined(__AVX__)
constexpr int ROWS_AT_ONCE = 6;
typedef A V __attribute__((vector_size(32)));
#else
constexpr int ROWS_AT_ONCE = 6;
typedef A V __attribute__((vector_size(16)));
#endif
constexpr int LANES = int(sizeof(V) / sizeof(A));
inline V vector_at(const device A* at) {
  V v;
  __builtin_memcpy(&v, at, sizeof(V));
  return v;
}
// ROWS_AT_ONCE rows of two vectors, over n steps of depth; added to what is in c, if asked.
inline void multiply_vectors(const device A* a, const device A* b, int n, thread A* c, int c_step,
                             bool is_first) {
  V sums[ROWS_AT_ONCE][2];
#pragma GCC unroll 12
  for (int i = 0; i < ROWS_AT_ONCE; ++i) {
    sums[i][0] = sums[i][1] = V{};
    if (!is_first) {
      sums[i][0] = vector_at(c + i * c_step);
      sums[i][1] = vector_at(c + i * c_step + LANES);
    }
  }
  for (int k = 0; k < n; ++k) {
#ifndef __CUDACC__
    // Panels come from a farther cache than a processor fetches ahead from in time, page by page:
    // about a tenth of the loop of operation/matmul/float32/2048x2048x2048 on one core.
    __builtin_prefetch(b + (k + 16) * COLUMNS);
    __builtin_prefetch(b + (k + 16) * COLUMNS + LANES);
    __builtin_prefetch(a + (k + 32) * ROWS);
#endif
    const V left = vector_at(b + k * COLUMNS);
    const V right = vector_at(b + k * COLUMNS + LANES);
#pragma GCC unroll 12
    for (int i = 0; i < ROWS_AT_ONCE; ++i) {
      const A v = a[k * ROWS + i];
      sums[i][0] += v * left;
      sums[i][1] += v * right;
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < ROWS_AT_ONCE; ++i) {
    __builtin_memcpy(c + i * c_step, &sums[i][0], sizeof(V));
    __builtin_memcpy(c + i * c_step + LANES, &sums[i][1], sizeof(V));
  }
}
inline void multiply_panels(const device A* a, const device A* b, int n, thread A* c, int c_step,
                            bool is_first) {
  for (int j = 0; j < COLUMNS; j += 2 * LANES) {
    for (int i = 0; i < ROWS; i += ROWS_AT_ONCE) {
      multiply_vectors(a + i, b + j, n, c + i * c_step + j, c_step, is_first);
    }
  }
}
)"});
  return kernel;
}

// The threadgroup has 64 rows of 64 columns, and a thread 4 of 4: every 16th row and column, so
// that neighbours read and write neighbouring elements. Depth goes by in steps of 16, through
// threadgroup memory, where zeros stand for what is outside. Each operand is read along the axis on
// which its elements are neighbours.
const Kernel& weak_matmul_tiles_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "matmul_tiles_weak",
                         .inputs = {"a", "b"},
                         .outputs = {"c"},
                         .source = std::string(kGroupNumberText) + R"(
threadgroup A tile_a[16][65];
threadgroup A tile_b[16][65];
const int t = int(thread_index_in_threadgroup);
const long rows = a_shape[a_ndim - 2];
const long depth = a_shape[a_ndim - 1];
const long columns = b_shape[b_ndim - 1];
const long wide = (columns + 63) / 64;
const long high = (rows + 63) / 64;
const long batch = number / (wide * high);
const long first_row = number / wide % high * 64;
const long first_column = number % wide * 64;
const long am = a_strides[a_ndim - 2];
const long ak = a_strides[a_ndim - 1];
const long bk = b_strides[b_ndim - 2];
const long bn = b_strides[b_ndim - 1];
auto from_a = a + elem_to_loc(batch, a_shape, a_strides, a_ndim - 2);
auto from_b = b + elem_to_loc(batch, b_shape, b_strides, b_ndim - 2);
A sums[4][4];
for (int i = 0; i < 4; ++i) {
  for (int j = 0; j < 4; ++j) sums[i][j] = A(0);
}
for (long first = 0; first < depth; first += 16) {
  for (int e = t; e < 16 * 64; e += 256) {
    const int k = ak == 1 ? e % 16 : e / 64;
    const int m = ak == 1 ? e / 16 : e % 64;
    const bool inside = first + k < depth && first_row + m < rows;
    tile_a[k][m] =
        inside ? load<A, A_HALF>(from_a[(first_row + m) * am + (first + k) * ak]) : A(0);
  }
  for (int e = t; e < 16 * 64; e += 256) {
    const int k = bn == 1 ? e / 64 : e % 16;
    const int n = bn == 1 ? e % 64 : e / 16;
    const bool inside = first + k < depth && first_column + n < columns;
    tile_b[k][n] =
        inside ? load<A, B_HALF>(from_b[(first + k) * bk + (first_column + n) * bn]) : A(0);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int k = 0; k < 16; ++k) {
    A values[4];
    for (int j = 0; j < 4; ++j) values[j] = tile_b[k][t % 16 + 16 * j];
    for (int i = 0; i < 4; ++i) {
      const A v = tile_a[k][t / 16 + 16 * i];
      for (int j = 0; j < 4; ++j) sums[i][j] += v * values[j];
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
for (int i = 0; i < 4; ++i) {
  const long row = first_row + t / 16 + 16 * i;
  for (int j = 0; j < 4; ++j) {
    const long column = first_column + t % 16 + 16 * j;
    if (row < rows && column < columns) {
      c[(batch * rows + row) * columns + column] = R(sums[i][j]);
    }
  }
}
)",
                         .header = kLoadText});
  return kernel;
}

// The threadgroup has 32 columns of one row. Where columns lie side by side in b, each simdgroup
// has every eighth step of depth, and a lane a column; else a simdgroup has four columns, and its
// lanes go along depth together.
const Kernel& weak_matmul_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "matmul_rows_weak",
                         .inputs = {"a", "b"},
                         .outputs = {"c"},
                         .source = std::string(kGroupNumberText) + R"(
threadgroup A tile[8][32];
const uint3 me = thread_position_in_threadgroup;
const long rows = a_shape[a_ndim - 2];
const long depth = b_shape[b_ndim - 2];
const long columns = b_shape[b_ndim - 1];
const long wide = (columns + 31) / 32;
const long first = number % wide * 32;
const long row = number / wide % rows;
const long batch = number / wide / rows;
const long ak = a_strides[a_ndim - 1];
const long bk = b_strides[b_ndim - 2];
const long bn = b_strides[b_ndim - 1];
auto from_a =
    a + (elem_to_loc(batch, a_shape, a_strides, a_ndim - 2) + row * a_strides[a_ndim - 2]);
auto from_b = b + elem_to_loc(batch, b_shape, b_strides, b_ndim - 2);
const long to = batch * c_batch + row * c_row;
if (bk != 1) {
  const long column = first + me.x;
  auto from = from_b + metal::min(column, columns - 1) * bn;
  A sum = A(0);
  for (long k = me.y; k < depth; k += 8) {
    sum += load<A, A_HALF>(from_a[k * ak]) * load<A, B_HALF>(from[k * bk]);
  }
  tile[me.y][me.x] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (me.y == 0 && column < columns) {
    for (int i = 1; i < 8; ++i) sum += tile[i][me.x];
    c[to + column * c_column] = R(sum);
  }
} else {
  A sums[4];
  long columns_of[4];
  for (int j = 0; j < 4; ++j) {
    sums[j] = A(0);
    columns_of[j] = first + me.y * 4 + j;
  }
  for (long k = me.x; k < depth; k += 32) {
    const A v = load<A, A_HALF>(from_a[k * ak]);
    for (int j = 0; j < 4; ++j) {
      if (columns_of[j] < columns) sums[j] += v * load<A, B_HALF>(from_b[columns_of[j] * bn + k]);
    }
  }
  for (int j = 0; j < 4; ++j) {
    const A sum = simd_sum(sums[j]);
    if (me.x == 0 && columns_of[j] < columns) c[to + columns_of[j] * c_column] = R(sum);
  }
}
)",
                         .header = kLoadText});
  return kernel;
}

}  // namespace holdfast::array
