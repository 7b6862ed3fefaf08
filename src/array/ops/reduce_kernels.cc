#include "holdfast/array/ops/reduce_kernels.h"

#include <string>

#include "holdfast/array/ops/rows.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {
namespace {

// x has the kept axes first, `kept` of them; the rest is reduced: the last one (inner) in steps,
// those between (outer) as one. A piece is a part of each. Results of pieces lie
// [piece, kept].
constexpr const char* kReduceHeader = R"(
// A sum or a product starts with what changes nothing; an extreme with one of its elements.
constexpr bool EXTREME = OP == 1 || OP == 2;
constexpr A NONE = OP == 3 ? A(1) : A(0);
inline A join(A a, A b) {
#if (OP == 1 || OP == 2) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (A(0.5f) != A(0) && sizeof(A) == 4) {  // one instruction
    float v;
    if (OP == 1) {
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(float(a)), "f"(float(b)));
    } else {
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(float(a)), "f"(float(b)));
    }
    return A(v);
  }
#endif
#if OP == 1
  return b > a || b != b ? b : a;
#elif OP == 2
  return b < a || b != b ? b : a;
#elif OP == 3
  return a * b;
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
  if (OP != 0 || R(1.5f) == R(1) || divisor == 1) return R(a);
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
A total = NONE;
A lost = A(0);
if (EXTREME) {
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
for (int j = 0; j < LANES; ++j) {
  totals[j] = NONE;
  losts[j] = A(0);
}
if (EXTREME) {
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

// Rows whose elements lie side by side. The sum of each pack is added as a block.
constexpr const char* kRunningText = R"(
struct Running {
  A total;
  A lost;
  template <class T> void take(T v, uint) { add_block(total, lost, load<A, HALF>(v)); }
  template <class T, int N> void take_pack(const thread Pack<T, N>& pack, uint, bool valid) {
#if defined(PAIRS) && (OP == 1 || OP == 2)
    const uint pair = joined_pairs(pack, [](uint a, uint b) {
      return OP == 1 ? larger_pair_or_nan(a, b) : smaller_pair_or_nan(a, b);
    });
    total = join(total, join(low_of(pair), high_of(pair)));
    return;
#endif
    A v[N];
    for (int j = 0; j < N; ++j) v[j] = load<A, HALF>(pack.at[j]);
    for (int width = N / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) v[j] = join(v[j], v[j + width]);
    }
    add_block(total, lost, EXTREME || valid ? v[0] : NONE);
  }
  void meet(Running other) { total = join(total, other.total); }
  Running from(uint distance) const { return {from_beside(total, distance), A(0)}; }
};
template <class T> inline Running started(T v, uint) {
  return {EXTREME ? load<A, HALF>(v) : NONE, A(0)};
}
template <class P> inline Running nothing(P row) {
  if constexpr (EXTREME && A(1.5f) != A(1)) {
    return {OP == 1 ? A(-INFINITY) : A(INFINITY), A(0)};
  } else {
    return started(row[0], 0);
  }
}
#define RESULT(running, begin) finish((running).total, divisor)
)";

// Elements that lie anywhere. A threadgroup has one result; each thread has every so many-th
// element of a piece, in short blocks, as strong threads have them.
constexpr const char* kWeakReduceApart = R"(
#define PLACE_OF(e)                                                      \
  (at + (x_ndim - kept == 1 ? (e) * x_strides[kept]                      \
                            : elem_to_loc((e), x_shape + kept, x_strides + kept, x_ndim - kept)))
threadgroup A meeting[8];
const uint t = thread_index_in_threadgroup;
const long at = elem_to_loc(number, x_shape, x_strides, kept);
const long begin = piece * piece_length;
const long end = metal::min(begin + piece_length, count);
const A start = EXTREME ? load<A, HALF>(x[PLACE_OF(begin)]) : NONE;
A total = start;
A lost = A(0);
for (long e = begin + t; e < end;) {
  A block = start;
  for (int j = 0; j < 16 && e < end; ++j, e += 256) {
    block = join(block, load<A, HALF>(x[PLACE_OF(e)]));
  }
  add_block(total, lost, block);
}
total = joined_in_group(total, meeting, t, [](A a, A b) { return join(a, b); });
if (t == 0) y[piece * group_count + number] = finish(total, divisor);
)";

// Results that lie side by side, and so do their elements. WIDE threads have VECTOR results each,
// and 256 / WIDE have every so many-th element of these: four on their way at once. Packs where
// memory is aligned for them; else a thread's columns are WIDE apart, so that neighbouring threads
// have neighbouring elements.
constexpr const char* kWeakReduceColumns = R"(
constexpr uint HIGH = 256 / WIDE;
threadgroup A tile[8][WIDE * VECTOR];
const uint t = thread_index_in_threadgroup;
const uint lane = t % WIDE;
const long columns = x_shape[kept - 1];
const long blocks = (columns + WIDE * VECTOR - 1) / (WIDE * VECTOR);
const long line = number / blocks;
const long first = number % blocks * (WIDE * VECTOR);
const uint width = uint(metal::min(columns - first, long(WIDE * VECTOR)));
const long begin = piece * piece_length;
const uint n = uint(metal::min(piece_length, count - begin));
auto source = x + (elem_to_loc(line, x_shape, x_strides, kept - 1) + first);
#if ONE
const long step = x_strides[x_ndim - 1];
source = source + begin * step;
#define ROW_AT(r) (long(r) * step)
const bool packed = step % VECTOR == 0 && width % VECTOR == 0 && is_aligned<VECTOR>(source);
#else
#define ROW_AT(r) elem_to_loc(begin + long(r), x_shape + kept, x_strides + kept, x_ndim - kept)
const bool packed = false;
#endif
A totals[VECTOR];
A losts[VECTOR];
uint mine[VECTOR];
for (int j = 0; j < VECTOR; ++j) {
  mine[j] = packed ? lane * VECTOR + j : lane + j * WIDE;
  totals[j] = NONE;
  losts[j] = A(0);
  if (EXTREME) totals[j] = load<A, HALF>(source[ROW_AT(0) + metal::min(mine[j], width - 1)]);
}
// What does not exist is the last that does; it counts for nothing in a sum or a product.
if (packed) {
  auto column = source + metal::min(lane * VECTOR, width - VECTOR);
  for (uint r = t / WIDE; r < n; r += 4 * HIGH) {
    Pack<ElementOf<decltype(x + 0)>, VECTOR> some[4];
    for (uint u = 0; u < 4; ++u) {
      some[u] = load_pack<VECTOR>(column + ROW_AT(metal::min(r + u * HIGH, n - 1)));
    }
    for (int j = 0; j < VECTOR; ++j) {
      A v[4];
      for (uint u = 0; u < 4; ++u) {
        v[u] = EXTREME || r + u * HIGH < n ? load<A, HALF>(some[u].at[j]) : NONE;
      }
      add_block(totals[j], losts[j], join(join(v[0], v[1]), join(v[2], v[3])));
    }
  }
} else {
  for (uint r = t / WIDE; r < n; r += 4 * HIGH) {
    A v[4][VECTOR];
    for (uint u = 0; u < 4; ++u) {
      auto row = source + ROW_AT(metal::min(r + u * HIGH, n - 1));
      for (int j = 0; j < VECTOR; ++j) {
        v[u][j] = load<A, HALF>(row[metal::min(mine[j], width - 1)]);
        if (!EXTREME && r + u * HIGH >= n) v[u][j] = NONE;
      }
    }
    for (int j = 0; j < VECTOR; ++j) {
      add_block(totals[j], losts[j], join(join(v[0][j], v[1][j]), join(v[2][j], v[3][j])));
    }
  }
}
for (uint distance = WIDE; distance < 32; distance *= 2) {
  for (int j = 0; j < VECTOR; ++j) {
    totals[j] = join(totals[j], simd_shuffle_xor(totals[j], distance));
  }
}
if (t % 32 < WIDE) {
  for (int j = 0; j < VECTOR; ++j) tile[t / 32][mine[j]] = totals[j];
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (t < width) {
  A total = tile[0][t];
  for (int i = 1; i < 8; ++i) total = join(total, tile[i][t]);
  y[(piece * (group_count / blocks) + line) * columns + first + t] = finish(total, divisor);
}
)";

std::string weak_rows_header() {
  return std::string(kPairsText) + kWholeText + kReduceHeader + kRunningText;
}
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
const Kernel& weak_reduce_rows_kernel(bool is_short) {
  static const NeverDestroyed<Kernel> rows(
      rows_kernel("reduce_rows_weak", weak_rows_header(), false));
  static const NeverDestroyed<Kernel> short_rows(
      rows_kernel("reduce_short_rows_weak", weak_rows_header(), true));
  return is_short ? short_rows : rows;
}
const Kernel& weak_reduce_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(reduction(
      "reduce_columns_weak", std::string(kGroupNumberText) + kWeakReduceColumns, kPackText));
  return kernel;
}
const Kernel& weak_reduce_apart_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      reduction("reduce_apart_weak", std::string(kGroupNumberText) + kWeakReduceApart, kJoinText));
  return kernel;
}

}  // namespace holdfast::array
