#include "holdfast/array/ops/reduce_kernels.h"

#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {
namespace {

// x has the kept axes first, `kept` of them; the rest is reduced: the last one (inner) in steps,
// those between (outer) as one. A piece is a part of each. Results of pieces lie
// [piece, kept].
constexpr const char* kReduceHeader = R"(
inline A join(A a, A b) {
#if OP == 1
  return b > a || b != b ? b : a;
#elif OP == 2
  return b < a || b != b ? b : a;
#else
  return a + b;
#endif
}
// Adds to a total the result of a block. What a float sum loses in rounding is kept for the next.
inline void add_block(thread A& total, thread A& lost, A v) {
#if OP == 0
  const A wanted = v - lost;
  const A next = total + wanted;
  lost = next - next == A(0) ? (next - total) - wanted : A(0);  // infinities lose nothing
  total = next;
#else
  total = join(total, v);
#endif
}
// A mean is a sum divided by more than one.
inline R finish(A a, long divisor) {
  if (OP != 0 || R(1.5f) == R(1)) return R(a);
  if (A(1.5f) != A(1)) return R(a / A(divisor));
  return R(float(a) / float(divisor));
}
)";

// Where a strong thread finds its piece.
constexpr const char* kReducePiece = R"(
#define PIECE                                                                 \
  const long piece = thread_position_in_grid.z;                               \
  const int last = x_ndim - 1;                                                \
  const long step = x_strides[last];                                          \
  const long outer_begin = piece / inner_pieces * outer_length;               \
  const long outer_end = metal::min(outer_begin + outer_length, outer_count); \
  const long inner_begin = piece % inner_pieces * inner_length;               \
  const long inner_end = metal::min(inner_begin + inner_length, long(x_shape[last]));
)";

// A thread has one result. Many accumulators fill vector registers; emptied after a few elements
// each, they keep the error of float sums to that of short ones, however long a row is.
constexpr const char* kReduceRows = R"(
constexpr int LANES = 32;
constexpr long BLOCK = 32 * LANES;
uint i = thread_position_in_grid.x;
PIECE
const long at = elem_to_loc(long(i), x_shape, x_strides, kept) + inner_begin * step;
const long n = inner_end - inner_begin;
A total = A(0);
A lost = A(0);
if (OP != 0) {
  const long outer = elem_to_loc(outer_begin, x_shape + kept, x_strides + kept, last - kept);
  total = load<A, HALF>(x[at + outer]);
}
const A start = total;
for (long outer = outer_begin; outer < outer_end; ++outer) {
  auto row = x + (at + elem_to_loc(outer, x_shape + kept, x_strides + kept, last - kept));
  long k = 0;
  if (step == 1) {
    while (n - k >= LANES) {
      const long stop = k + metal::min(BLOCK, (n - k) / LANES * LANES);
      A sums[LANES];
      for (int j = 0; j < LANES; ++j) sums[j] = start;
      for (; k < stop; k += LANES) {
        for (int j = 0; j < LANES; ++j) sums[j] = join(sums[j], load<A, HALF>(row[k + j]));
      }
      for (int width = LANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; ++j) sums[j] = join(sums[j], sums[j + width]);
      }
      add_block(total, lost, sums[0]);
    }
  }
  while (k < n) {
    const long stop = metal::min(k + BLOCK / LANES, n);
    A sum = start;
    for (; k < stop; ++k) sum = join(sum, load<A, HALF>(row[k * step]));
    add_block(total, lost, sum);
  }
}
y[piece * long(threads_per_grid.x) + long(i)] = finish(total, divisor);
)";

// A thread has up to 32 results that lie side by side, and so do their elements.
constexpr const char* kReduceColumns = R"(
constexpr int LANES = 32;
PIECE
const long columns = x_shape[kept - 1];
const long first = long(thread_position_in_grid.x) * LANES;
const int width = int(metal::min(long(LANES), columns - first));
const long line = thread_position_in_grid.y;
const long at = elem_to_loc(line, x_shape, x_strides, kept - 1) + first;
A totals[LANES];
A losts[LANES];
A starts[LANES];
for (int j = 0; j < LANES; ++j) totals[j] = losts[j] = A(0);
if (OP != 0) {
  const long outer = elem_to_loc(outer_begin, x_shape + kept, x_strides + kept, last - kept);
  for (int j = 0; j < width; ++j) totals[j] = load<A, HALF>(x[at + outer + inner_begin * step + j]);
}
for (int j = 0; j < LANES; ++j) starts[j] = totals[j];
for (long outer = outer_begin; outer < outer_end; ++outer) {
  auto column = x + (at + elem_to_loc(outer, x_shape + kept, x_strides + kept, last - kept));
  long k = inner_begin;
  while (k < inner_end) {
    const long stop = metal::min(k + 32, inner_end);
    A sums[LANES];
    for (int j = 0; j < LANES; ++j) sums[j] = starts[j];
    if (width == LANES) {
      for (; k < stop; ++k) {
        for (int j = 0; j < LANES; ++j) {
          sums[j] = join(sums[j], load<A, HALF>(column[k * step + j]));
        }
      }
    } else {
      for (; k < stop; ++k) {
        for (int j = 0; j < width; ++j) {
          sums[j] = join(sums[j], load<A, HALF>(column[k * step + j]));
        }
      }
    }
    for (int j = 0; j < LANES; ++j) add_block(totals[j], losts[j], sums[j]);
  }
}
const long to = (piece * long(threads_per_grid.y) + line) * columns + first;
for (int j = 0; j < width; ++j) y[to + j] = finish(totals[j], divisor);
)";

// The same for many weak threads. The reduced axes are counted as one; a piece is a part of it.
// Each thread has every so many-th element of a piece: neighbours read neighbouring elements.
constexpr const char* kWeakReduceHeader = R"(
#define PLACE_OF(e)                                                      \
  (at + (x_ndim - kept == 1 ? (e) * x_strides[kept]                      \
                            : elem_to_loc((e), x_shape + kept, x_strides + kept, x_ndim - kept)))
// In short blocks, as strong threads have them.
#define REDUCE_EVERY(first, distance)                                        \
  const long begin = piece * piece_length;                                   \
  const long end = metal::min(begin + piece_length, count);                  \
  const A start = OP != 0 ? load<A, HALF>(x[PLACE_OF(begin)]) : A(0);        \
  A total = start;                                                           \
  A lost = A(0);                                                             \
  for (long e = begin + first; e < end;) {                                   \
    A block = start;                                                         \
    for (int j = 0; j < 16 && e < end; ++j, e += distance) {                 \
      block = join(block, load<A, HALF>(x[PLACE_OF(e)]));                    \
    }                                                                        \
    add_block(total, lost, block);                                           \
  }
)";

// A threadgroup has one result.
constexpr const char* kWeakReduceRows = R"(
threadgroup A meeting[8];
const uint t = thread_index_in_threadgroup;
const long at = elem_to_loc(number, x_shape, x_strides, kept);
REDUCE_EVERY(t, 256)
total = joined_in_group(total, meeting, t, [](A a, A b) { return join(a, b); });
if (t == 0) y[piece * group_count + number] = finish(total, divisor);
)";

// A threadgroup has 32 results that lie side by side, and so do their elements; each simdgroup has
// every eighth of them.
constexpr const char* kWeakReduceColumns = R"(
threadgroup A tile[8][32];
const uint3 me = thread_position_in_threadgroup;
const long columns = x_shape[kept - 1];
const long blocks = (columns + 31) / 32;
const long line = number / blocks;
const long column = number % blocks * 32 + me.x;
const long at = elem_to_loc(line, x_shape, x_strides, kept - 1) + metal::min(column, columns - 1);
REDUCE_EVERY(me.y, 8)
tile[me.y][me.x] = total;
threadgroup_barrier(mem_flags::mem_threadgroup);
if (me.y == 0 && column < columns) {
  for (int i = 1; i < 8; ++i) total = join(total, tile[i][me.x]);
  y[(piece * (group_count / blocks) + line) * columns + column] = finish(total, divisor);
}
)";

kernel::Definition reduction(std::string name, std::string source, const std::string& header) {
  return {.name = std::move(name),
          .inputs = {"x"},
          .outputs = {"y"},
          .source = std::move(source),
          .header = std::string(kLoadText) + kReduceHeader + header};
}

}  // namespace

const Kernel& reduce_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(reduction("reduce_rows", kReduceRows, kReducePiece));
  return kernel;
}
const Kernel& reduce_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      reduction("reduce_columns", kReduceColumns, kReducePiece));
  return kernel;
}
const Kernel& weak_reduce_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      reduction("reduce_rows_weak", std::string(kGroupNumberText) + kWeakReduceRows,
                std::string(kJoinText) + kWeakReduceHeader));
  return kernel;
}
const Kernel& weak_reduce_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      reduction("reduce_columns_weak", std::string(kGroupNumberText) + kWeakReduceColumns,
                kWeakReduceHeader));
  return kernel;
}

}  // namespace holdfast::array
