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
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "matmul_pack",
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
if (width == WIDTH && right == 1) {
  for (long k = begin; k < end; ++k) {
    for (int j = 0; j < WIDTH; ++j) to[k * WIDTH + j] = load<A, HALF>(from[k * down + j]);
  }
} else {
  for (int j = 0; j < width; ++j) {
    for (long k = begin; k < end; ++k) {
      to[k * WIDTH + j] = load<A, HALF>(from[k * down + j * right]);
    }
  }
  for (int j = width; j < WIDTH; ++j) {
    for (long k = begin; k < end; ++k) to[k * WIDTH + j] = A(0);
  }
}
)",
                                                                .header = kLoadText});
  return kernel;
}

// Panels of a, ROWS wide, times panels of b, COLUMNS wide.
const Kernel& matmul_tiles_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{
      .name = "matmul_tiles", .inputs = {"a", "b"}, .outputs = {"c"}, .source = R"(
const long x = thread_position_in_grid.x;
const long y = thread_position_in_grid.y;
const long batch = thread_position_in_grid.z;
auto from_a = a + (batch * a_batch + y * ROWS * depth);
auto from_b = b + (batch * b_batch + x * COLUMNS * depth);
A sums[ROWS][COLUMNS];
for (int i = 0; i < ROWS; ++i) {
  for (int j = 0; j < COLUMNS; ++j) sums[i][j] = A(0);
}
for (long k = 0; k < depth; ++k) {
  for (int i = 0; i < ROWS; ++i) {
    const A v = from_a[k * ROWS + i];
    for (int j = 0; j < COLUMNS; ++j) sums[i][j] += v * from_b[k * COLUMNS + j];
  }
}
const long to = (batch * rows + y * ROWS) * columns + x * COLUMNS;
const int height = int(metal::min(long(ROWS), rows - y * ROWS));
const int width = int(metal::min(long(COLUMNS), columns - x * COLUMNS));
if (height == ROWS && width == COLUMNS) {
  for (int i = 0; i < ROWS; ++i) {
    for (int j = 0; j < COLUMNS; ++j) c[to + i * columns + j] = R(sums[i][j]);
  }
} else {
  for (int i = 0; i < height; ++i) {
    for (int j = 0; j < width; ++j) c[to + i * columns + j] = R(sums[i][j]);
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
