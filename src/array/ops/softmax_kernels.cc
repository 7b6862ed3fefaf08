#include "holdfast/array/ops/softmax_kernels.h"

#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {
namespace {

constexpr const char* kExpText = R"(
// e^x of what is not above zero, in simple operations that compilers make vectors of. Off by two
// units in the last place at most; what float32 has no normal number for is zero.
inline float exp_below(float x) {
#ifdef __CUDACC__
  // Two instructions, whose error is far below what a result of two bytes shows; or a few.
  if (sizeof(R) != 2) return metal::exp(x);
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
  return power;
#else
  const float low = x < -87.0f ? -87.0f : x;
  const float shifted = low * 1.44269504f + 12582912.0f;  // its low bits are the whole number
  const float whole = shifted - 12582912.0f;
  const float f = (low - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.394114660e-03f;
  p = p * f + 8.375156955e-03f;
  p = p * f + 4.166635244e-02f;
  p = p * f + 1.666641515e-01f;
  p = p * f + 5.000000047e-01f;
  p = p * f + 1.000000038e+00f;
  p = p * f + 1.0f;
  const uint power = (as_type<uint>(shifted) + 127u) << 23;
  return x < -87.0f ? 0.0f : p * as_type<float>(power);
#endif
}
inline double exp_below(double x) { return metal::exp(x); }
// What is not a number is not larger than anything.
template <class T> inline T larger(T a, T b) {
#ifdef __CUDACC__
  return ::fmax(a, b);  // one instruction
#else
  return b > a ? b : a;
#endif
}
)";

// Rows of n elements, `step` apart; pieces of rows are rows, too.
constexpr const char* kStrongText = R"(
constexpr int LANES = 32;
constexpr int BLOCK = 128;

// LANES elements that lie side by side, and the other way.
template <bool kHalf, class P>
inline void load_lanes(P at, thread A* to) {
  const device ElementOf<P>* from = at;
  if constexpr (kHalf) {
    convert<LANES>(reinterpret_cast<const device half*>(from), to);
  } else {
    convert<LANES>(from, to);
  }
}
template <class Q>
inline void store_lanes(const thread A* from, Q at) {
  device R* to = at;
  convert<LANES>(from, to);
}

template <bool kHalf, class P>
A largest(P row, long n, long step) {
  A best = load<A, kHalf>(row[0]);
  long k = 0;
  if (step == 1 && n >= LANES) {
    alignas(64) A lanes[LANES];
    alignas(64) A values[LANES];
    load_lanes<kHalf>(row, lanes);
    for (k = LANES; k + LANES <= n; k += LANES) {
      load_lanes<kHalf>(row + k, values);
      for (int j = 0; j < LANES; ++j) lanes[j] = values[j] > lanes[j] ? values[j] : lanes[j];
    }
    for (int j = 0; j < LANES; ++j) best = lanes[j] > best ? lanes[j] : best;
  }
  for (; k < n; ++k) {
    const A v = load<A, kHalf>(row[k * step]);
    best = v > best ? v : best;
  }
  return best;
}

// In blocks, so that the error of a long sum is that of a short one.
template <class P>
A sum_of_powers(P row, long n, long step, A best) {
  A sum = A(0);
  long k = 0;
  if (step == 1) {
    while (n - k >= LANES) {
      const long stop = k + metal::min(long(BLOCK * LANES), (n - k) / LANES * LANES);
      alignas(64) A lanes[LANES];
      alignas(64) A values[LANES];
      for (int j = 0; j < LANES; ++j) lanes[j] = A(0);
      for (; k < stop; k += LANES) {
        load_lanes<HALF>(row + k, values);
        for (int j = 0; j < LANES; ++j) lanes[j] += exp_below(values[j] - best);
      }
      for (int width = LANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
      }
      sum += lanes[0];
    }
  }
  while (k < n) {
    const long stop = metal::min(k + BLOCK, n);
    A part = A(0);
    for (; k < stop; ++k) part += exp_below(load<A, HALF>(row[k * step]) - best);
    sum += part;
  }
  return sum;
}

template <class P, class Q>
void write(P row, long step, Q to, long to_step, long n, A best, A sum) {
  const A scale = A(1) / sum;
  long k = 0;
  if (step == 1) {
    for (; k + LANES <= n; k += LANES) {
      alignas(64) A values[LANES];
      load_lanes<HALF>(row + k, values);
      for (int j = 0; j < LANES; ++j) values[j] = exp_below(values[j] - best) * scale;
      if (to_step == 1) {
        store_lanes(values, to + k);
      } else {
        for (int j = 0; j < LANES; ++j) to[(k + j) * to_step] = R(values[j]);
      }
    }
  }
  for (; k < n; ++k) {
    to[k * to_step] = R(exp_below(load<A, HALF>(row[k * step]) - best) * scale);
  }
}
)";

const std::string& strong_softmax() {
  static const NeverDestroyed<std::string> text(std::string(kPackText) + kConvertText +
                                                kStrongText);
  return text;
}

// x has the axis last; in y its elements are y_step apart.
constexpr const char* kSoftmaxRow = R"(
const long i = thread_position_in_grid.x;
const int last = x_ndim - 1;
const long step = x_strides[last];
const long n = x_shape[last];
auto row = x + elem_to_loc(i, x_shape, x_strides, last);
)";

// Rows side by side, y_step of them: a thread has up to 32.
constexpr const char* kSoftmaxColumns = R"(
const int last = x_ndim - 1;
const long step = x_strides[last];
const long n = x_shape[last];
const long first = long(thread_position_in_grid.x) * LANES;
const long line = thread_position_in_grid.y;
const int width = int(metal::min(long(LANES), y_step - first));
auto from = x + elem_to_loc(line * y_step + first, x_shape, x_strides, last);
auto to = y + (line * n * y_step + first);
A bests[LANES];
A sums[LANES];
for (int j = 0; j < LANES; ++j) sums[j] = bests[j] = A(0);
for (int j = 0; j < width; ++j) bests[j] = load<A, HALF>(from[j]);
alignas(64) A values[LANES];
if (width == LANES) {
  for (long k = 1; k < n; ++k) {
    load_lanes<HALF>(from + k * step, values);
    for (int j = 0; j < LANES; ++j) bests[j] = values[j] > bests[j] ? values[j] : bests[j];
  }
} else {
  for (long k = 1; k < n; ++k) {
    for (int j = 0; j < width; ++j) {
      const A v = load<A, HALF>(from[k * step + j]);
      bests[j] = v > bests[j] ? v : bests[j];
    }
  }
}
for (long k = 0; k < n;) {
  const long stop = metal::min(k + BLOCK, n);
  A parts[LANES];
  for (int j = 0; j < LANES; ++j) parts[j] = A(0);
  for (; k < stop; ++k) {
    if (width == LANES) {
      load_lanes<HALF>(from + k * step, values);
      for (int j = 0; j < LANES; ++j) parts[j] += exp_below(values[j] - bests[j]);
    } else {
      for (int j = 0; j < width; ++j) {
        parts[j] += exp_below(load<A, HALF>(from[k * step + j]) - bests[j]);
      }
    }
  }
  for (int j = 0; j < LANES; ++j) sums[j] += parts[j];
}
for (int j = 0; j < LANES; ++j) sums[j] = A(1) / sums[j];
for (long k = 0; k < n; ++k) {
  if (width == LANES) {
    load_lanes<HALF>(from + k * step, values);
    for (int j = 0; j < LANES; ++j) values[j] = exp_below(values[j] - bests[j]) * sums[j];
    store_lanes(values, to + k * y_step);
  } else {
    for (int j = 0; j < width; ++j) {
      to[k * y_step + j] = R(exp_below(load<A, HALF>(from[k * step + j]) - bests[j]) * sums[j]);
    }
  }
}
)";

// Long rows are cut into pieces: of each its largest element and the sum that goes with that.
constexpr const char* kSoftmaxPiece = R"(
const long piece = thread_position_in_grid.y;
const long pieces = threads_per_grid.y;
const long begin = piece * piece_length;
const long length = metal::min(piece_length, n - begin);
)";

// The sum of a row, of its pieces' largest elements and sums.
constexpr const char* kSumOfPieces = R"(
A sum = A(0);
for (long p = 0; p < pieces; ++p) {
  // Of nothing but minus infinity the sum is zero, or NaN if there is one.
  const A of = largests[row_of_pieces + p];
  const bool is_own = of == best || of == A(-INFINITY);
  sum += is_own ? sums[row_of_pieces + p] : sums[row_of_pieces + p] * exp_below(of - best);
}
)";

// What many weak threads find of a row, in parts: see Found.
constexpr const char* kFoundText = R"(
// Powers are below a level, which stands for the largest element.
#if defined(__CUDACC__) && HALF
// Of two: one multiplication for the difference, too. All powers of a row are wrong by the same
// factor, so that it does not show; floats of more bits have elements too large for that. Levels are
// subtracted from each other, too: as a part of that, the product would not be rounded.
inline A level_of(A best) { return best == A(-INFINITY) ? A(0) : __fmul_rn(best, 1.44269504f); }
inline A power_of(A x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
inline A power(A v, A level) { return power_of(metal::fma(v, 1.44269504f, -level)); }
#else
inline A level_of(A best) { return best == A(-INFINITY) ? A(0) : best; }
inline A power_of(A x) { return exp_below(x); }
inline A power(A v, A level) { return exp_below(v - level); }
#endif
// The largest element and the sum of powers below its level. If there is nothing but minus
// infinity, that is zero.
struct Found {
  A best;
  A sum;
};
inline A sum_below(Found found, A best) {
  if (found.best == A(-INFINITY)) return found.sum;
  return found.sum * power_of(level_of(found.best) - level_of(best));
}
// Of N threads that lie beside each other; in one order on all runs.
template <uint N> inline Found joined_beside(Found found) {
  A best = found.best;
  for (uint distance = N / 2; distance > 0; distance /= 2) {
    best = larger(best, from_beside(best, distance));
  }
  A sum = sum_below(found, best);
  for (uint distance = N / 2; distance > 0; distance /= 2) sum += from_beside(sum, distance);
  return {best, sum};
}
)";
// For rows of whole threadgroups, of LANES threads.
constexpr const char* kJoinedText = R"(
constexpr uint SIMDS = LANES / 32;
inline Found joined(Found found, threadgroup Found* meeting, uint t) {
  found = joined_beside<32>(found);
  if (t % 32 == 0) meeting[t / 32] = found;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return joined_beside<SIMDS>(meeting[t % SIMDS]);
}
)";
constexpr const char* kHeadText = R"(
// How far past a place where packs begin a row does.
template <class P>
inline int head_of(P row) {
  const device ElementOf<P>* p = row;
  return int(reinterpret_cast<ulong>(p) / sizeof(*p) % VECTOR);
}
// A pack, to a place where one begins.
template <class Q> inline void store_scaled(const thread A* values, A scale, Q to) {
#if defined(PAIRS) && VECTOR == 8
  uint words[4];
  for (int j = 0; j < 4; ++j) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;"
        : "=r"(words[j])
        : "f"(values[2 * j + 1] * scale), "f"(values[2 * j] * scale));
  }
  device ElementOf<Q>* p = to;  // compilers store halves one by one
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(p), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]));
#else
  Pack<R, VECTOR> pack;
  for (int j = 0; j < VECTOR; ++j) pack.at[j] = R(values[j] * scale);
  store_pack<VECTOR>(to, pack);
#endif
}
)";
// Rows of up to a simdgroup: LANES threads have a row, PACKS packs of VECTOR elements for each. The
// packs of a row begin where memory is aligned: the first and the last may have elements outside of
// it, which count as minus infinity.
constexpr const char* kShortText = R"(
// The packs that a thread has from `from` on; `at` is where that would be. Where all are within the
// row, they are on their way before the first is needed; others are waited for one by one where
// they have to be converted.
template <class P>
inline void load_packs(P at, long step, int n, int from, thread A* values) {
  if (from >= 0 && from + ((PACKS - 1) * LANES + 1) * VECTOR <= n) {
    Pack<ElementOf<P>, VECTOR> packs[PACKS];
    for (int p = 0; p < PACKS; ++p) packs[p] = load_pack<VECTOR>(at + p * LANES * VECTOR * step);
    for (int i = 0; i < PACKS * VECTOR; ++i) {
      values[i] = load<A, HALF>(packs[i / VECTOR].at[i % VECTOR]);
    }
    return;
  }
  for (int p = 0; p < PACKS; ++p) {
    const int k = p * LANES * VECTOR;
    thread A* const to = values + p * VECTOR;
    if ((p > 0 || from >= 0) && from + k + VECTOR <= n) {
      const auto pack = load_pack<VECTOR>(at + k * step);
      for (int j = 0; j < VECTOR; ++j) to[j] = load<A, HALF>(pack.at[j]);
    } else {
      for (int j = 0; j < VECTOR; ++j) {
        const bool inside = (p > 0 || from + j >= 0) && from + k + j < n;
        to[j] = inside ? load<A, HALF>(at[(k + j) * step]) : A(-INFINITY);
      }
    }
  }
}
// Pack p of those; `at` is where `from` would be.
template <class Q>
inline void store_at(Q at, long step, bool aligned, int n, int from, int p,
                     const thread A* values, A scale) {
  const int k = p * LANES * VECTOR;
  if (aligned && (p > 0 || from >= 0) && from + k + VECTOR <= n) {
    store_scaled(values, scale, at + k * step);
  } else {
    for (int j = 0; j < VECTOR; ++j) {
      if ((p > 0 || from + j >= 0) && from + k + j < n) at[(k + j) * step] = R(values[j] * scale);
    }
  }
}
)";
constexpr const char* kWeakRow = R"(
const uint t = thread_index_in_threadgroup;
const int last = x_ndim - 1;
const long step = DENSE ? 1 : x_strides[last];
const long whole = x_shape[last];
#if EVEN
#define ROW_AT(which) (x + ((which) * x_strides[last - 1] + begin * step))
#else
#define ROW_AT(which) (x + (elem_to_loc((which), x_shape, x_strides, last) + begin * step))
#endif
#if DENSE
#define TO_STEP 1
#define TO_AT(which) (y + ((which) * whole + begin))
#else
#define TO_STEP y_step
#define TO_AT(which) \
  (y + ((which) / y_step * whole * y_step + (which) % y_step + begin * y_step))
#endif
)";
constexpr const char* kShortRow = R"(
const long begin = 0;
const int lane = int(t % LANES);
const long mine = number * (long(threads_per_threadgroup.x) / LANES) + t / LANES;
const bool is_there = mine < rows;
const long which = is_there ? mine : rows - 1;
const int n = int(whole);
auto row = ROW_AT(which);
const int head = head_of(row);
const int from = lane * VECTOR - head;
A values[PACKS * VECTOR];
// A row that begins elsewhere may have more packs: then a thread has every LANES-th element.
const bool packed = head + n <= LANES * PACKS * VECTOR;
if (packed) {
  load_packs(row + from * step, step, n, from, values);
} else {
  for (int i = 0; i < PACKS * VECTOR; ++i) {
    const int k = lane + i * LANES;
    values[i] = k < n ? load<A, HALF>(row[k * step]) : A(-INFINITY);
  }
}
A best = A(-INFINITY);
for (int i = 0; i < PACKS * VECTOR; ++i) best = larger(best, values[i]);
for (uint distance = LANES / 2; distance > 0; distance /= 2) {
  best = larger(best, from_beside(best, distance));
}
const A level = level_of(best);
A sum = A(0);
for (int i = 0; i < PACKS * VECTOR; ++i) {
  values[i] = power(values[i], level);
  sum += values[i];
}
for (uint distance = LANES / 2; distance > 0; distance /= 2) sum += from_beside(sum, distance);
if (is_there) {
  const A scale = A(1) / sum;
  auto to = TO_AT(which);
  const bool aligned = head_of(to) == head;
  auto target = to + from * TO_STEP;
  if (packed) {
    for (int p = 0; p < PACKS; ++p) {
      store_at(target, TO_STEP, aligned, n, from, p, values + p * VECTOR, scale);
    }
  } else {
    for (int i = 0; i < PACKS * VECTOR; ++i) {
      const int k = lane + i * LANES;
      if (k < n) to[k * TO_STEP] = R(values[i] * scale);
    }
  }
}
)";

// Longer rows, and pieces of them: a threadgroup of LANES threads has one, of n elements. Packs
// begin where memory is aligned. A thread has every LANES-th of them, and what lies before and
// after all of them is left to threads of their own, an element each.
constexpr const char* kLongText = R"(
#ifdef __CUDACC__
#define GROUP_BOUNDS __launch_bounds__(LANES, GROUPS)
#endif
typedef Pack<X, VECTOR> Input;
// The largest element of packs.
#if defined(PAIRS) && VECTOR > 1
typedef uint Most;
constexpr Most NO_MOST = 0xfc00fc00u;
inline Most larger_of(const thread Input& pack, Most most) {
  const uint own = joined_pairs(pack, [](uint a, uint b) { return larger_pair(a, b); });
  return larger_pair(most, own);
}
inline A value_of(Most most) { return larger(low_of(most), high_of(most)); }
#else
typedef A Most;
constexpr Most NO_MOST = A(-INFINITY);
inline Most larger_of(const thread Input& pack, Most most) {
  for (int j = 0; j < VECTOR; ++j) most = larger(most, load<A, HALF>(pack.at[j]));
  return most;
}
inline A value_of(Most most) { return most; }
#endif
// POWERS: a power takes the place of its element, so that it is not computed again.
inline A sum_of(thread Input& pack, A level) {
  A sum = A(0);
  for (int j = 0; j < VECTOR; ++j) {
    const A v = power(load<A, HALF>(pack.at[j]), level);
    if (POWERS) pack.at[j] = X(v);
    sum += v;
  }
  return sum;
}
// Elements, or powers that are there already.
template <bool kPowers, class Q>
inline void write(const thread Input& pack, A level, A scale, Q to, long step, bool aligned) {
  A values[VECTOR];
  for (int j = 0; j < VECTOR; ++j) {
    values[j] = kPowers ? A(pack.at[j]) : power(load<A, HALF>(pack.at[j]), level);
  }
  if (aligned) {
    store_scaled(values, scale, to);
  } else {
    for (int j = 0; j < VECTOR; ++j) to[j * step] = R(values[j] * scale);
  }
}
// Packs on their way at once; fewer beside those that stay in registers.
constexpr int BATCH = VECTOR == 1 ? 16 : AGAIN ? 2 : 4;
template <int N, class P>
inline void load_packs(P at, long step, int p, int packs, thread Input* to) {
  for (int i = 0; i < N; ++i) {
    if (p + i * LANES < packs) to[i] = load_pack<VECTOR>(at + long(p + i * LANES) * VECTOR * step);
  }
}
template <int N> inline Most larger_of(const thread Input* some, int p, int packs, Most most) {
  for (int i = 0; i < N; ++i) {
    if (p + i * LANES < packs) most = larger_of(some[i], most);
  }
  return most;
}
template <int N> inline A sum_of(thread Input* some, int p, int packs, A level) {
  A sum = A(0);
  for (int i = 0; i < N; ++i) {
    if (p + i * LANES < packs) sum += sum_of(some[i], level);
  }
  return sum;
}
template <int N, bool kPowers, class Q>
inline void write(const thread Input* some, int p, int packs, A level, A scale, Q at, long step,
                  bool aligned) {
  for (int i = 0; i < N; ++i) {
    const int k = p + i * LANES;
    if (k >= packs) continue;
    write<kPowers>(some[i], level, scale, at + long(k) * VECTOR * step, step, aligned);
  }
}
// What is found of the packs from p on, and of other elements before.
template <class P>
inline Found found_from(P at, long step, int p, int packs, Found found) {
  Input some[BATCH];
  for (; p < packs; p += BATCH * LANES) {
    load_packs<BATCH>(at, step, p, packs, some);
    const A best = larger(found.best, value_of(larger_of<BATCH>(some, p, packs, NO_MOST)));
    found = {best, sum_below(found, best) + sum_of<BATCH>(some, p, packs, level_of(best))};
  }
  return found;
}
template <class P, class Q>
inline void write_from(P at, long step, int p, int packs, A level, A scale, Q to, long to_step,
                       bool aligned) {
  Input some[BATCH];
  for (; p < packs; p += BATCH * LANES) {
    load_packs<BATCH>(at, step, p, packs, some);
    write<BATCH, false>(some, p, packs, level, scale, to, to_step, aligned);
  }
}
)";
constexpr const char* kLongRow = R"(
const long begin = piece * piece_length;
const int n = int(metal::min(piece_length, whole - begin));
auto row = ROW_AT(number);
const int head = head_of(row);
const int lead = head == 0 ? 0 : metal::min(VECTOR - head, n);
const int packs = (n - lead) / VECTOR;
const int after = lead + packs * VECTOR + int(t) - 32;
const int edge = int(t) < lead ? int(t) : int(t) >= 32 && after < n ? after : -1;
X edge_bits = X(0);
if (edge >= 0) edge_bits = row[edge * step];
#define AT_EDGE (edge < 0 ? A(-INFINITY) : load<A, HALF>(edge_bits))
auto at = row + lead * step;
)";
constexpr const char* kLongTarget = R"(
auto to = TO_AT(number);
const bool aligned = DENSE && head_of(to) == head;
const A scale = A(1) / all.sum;
const A level = level_of(all.best);
if (edge >= 0) to[edge * TO_STEP] = R(power(AT_EDGE, level) * scale);
auto target = to + lead * TO_STEP;
)";

// Rows side by side, y_step of them: a threadgroup has 32, and each of its HEIGHT simdgroups every
// HEIGHT-th element.
constexpr const char* kWeakSoftmaxColumns = R"(
constexpr int AHEAD = 8;
threadgroup Found tile[HEIGHT][32];
const uint3 me = thread_position_in_threadgroup;
const int last = x_ndim - 1;
const long step = x_strides[last];
const long n = x_shape[last];
const long blocks = (y_step + 31) / 32;
const long line = number / blocks;
const long column = number % blocks * 32 + me.x;
const long there = metal::min(column, y_step - 1);
auto from = x + elem_to_loc(line * y_step + there, x_shape, x_strides, last);
A values[AHEAD];
Found found{A(-INFINITY), A(0)};
for (long k = me.y; k < n; k += HEIGHT * AHEAD) {
  A best = found.best;
  for (int j = 0; j < AHEAD; ++j) {
    const long at = k + j * HEIGHT;
    values[j] = at < n ? load<A, HALF>(from[at * step]) : A(-INFINITY);
  }
  for (int j = 0; j < AHEAD; ++j) best = larger(best, values[j]);
  const A level = level_of(best);
  A part = A(0);
  for (int j = 0; j < AHEAD; ++j) part += power(values[j], level);
  found = {best, part + sum_below(found, best)};
}
tile[me.y][me.x] = found;
threadgroup_barrier(mem_flags::mem_threadgroup);
A best = A(-INFINITY);
for (int i = 0; i < HEIGHT; ++i) best = larger(best, tile[i][me.x].best);
A sum = A(0);
for (int i = 0; i < HEIGHT; ++i) sum += sum_below(tile[i][me.x], best);
if (column < y_step) {
  const A scale = A(1) / sum;
  const A level = level_of(best);
  auto to = y + (line * n * y_step + column);
  for (long k = me.y; k < n; k += HEIGHT * AHEAD) {
    for (int j = 0; j < AHEAD; ++j) {
      const long at = k + j * HEIGHT;
      if (at < n) values[j] = load<A, HALF>(from[at * step]);
    }
    for (int j = 0; j < AHEAD; ++j) {
      const long at = k + j * HEIGHT;
      if (at < n) to[at * y_step] = R(power(values[j], level) * scale);
    }
  }
}
)";

kernel::Definition softmax_of(std::string name, std::string source, const std::string& header) {
  return {.name = std::move(name),
          .inputs = {"x"},
          .outputs = {"y"},
          .source = std::move(source),
          .header = std::string(kLoadText) + kExpText + header};
}
std::string weak_header() { return std::string(kPackText) + kPairsText + kWholeText + kFoundText; }
kernel::Definition first_of_pieces(kernel::Definition definition) {
  definition.outputs = {"largests", "sums"};
  return definition;
}
kernel::Definition second_of_pieces(kernel::Definition definition) {
  definition.inputs = {"x", "largests", "sums"};
  return definition;
}

}  // namespace

const Kernel& softmax_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(softmax_of("softmax", std::string(kSoftmaxRow) + R"(
const A best = largest<HALF>(row, n, step);
const A sum = sum_of_powers(row, n, step, best);
write(row, step, y + (i / y_step * n * y_step + i % y_step), y_step, n, best, sum);
)",
                                                        strong_softmax()));
  return kernel;
}
const Kernel& softmax_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      softmax_of("softmax_columns", kSoftmaxColumns, strong_softmax()));
  return kernel;
}
const Kernel& softmax_pieces_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      first_of_pieces(softmax_of("softmax_pieces", std::string(kSoftmaxRow) + kSoftmaxPiece + R"(
const A best = largest<HALF>(row + begin * step, length, step);
largests[i * pieces + piece] = best;
const A below = best == A(-INFINITY) ? A(0) : best;
sums[i * pieces + piece] = sum_of_powers(row + begin * step, length, step, below);
)",
                                 strong_softmax())));
  return kernel;
}
const Kernel& softmax_join_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      second_of_pieces(softmax_of("softmax_join", std::string(kSoftmaxRow) + kSoftmaxPiece + R"(
const long row_of_pieces = i * pieces;
const A best = largest<false>(largests + row_of_pieces, pieces, 1);
)" + kSumOfPieces + R"(
const long to = i / y_step * n * y_step + i % y_step + begin * y_step;
write(row + begin * step, step, y + to, y_step, length, best, sum);
)",
                                  strong_softmax())));
  return kernel;
}

const Kernel& weak_softmax_short_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      softmax_of("softmax_short_weak", std::string(kGroupNumberText) + kWeakRow + kShortRow,
                 weak_header() + kHeadText + kShortText));
  return kernel;
}
const Kernel& weak_softmax_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      softmax_of("softmax_weak", std::string(kGroupNumberText) + kWeakRow + kLongRow + R"(
threadgroup Found meeting[SIMDS];
// First what lies in registers, then what lies in threadgroup memory, then what is read twice.
Input own[PACKS];
load_packs<PACKS>(at, step, int(t), packs, own);
Most most = NO_MOST;
#if KEPT > 0
threadgroup Input kept[KEPT * LANES];
const int from = PACKS * LANES + int(t);
for (int i = 0; i < KEPT; i += 4) {
  Input some[4];
  load_packs<4>(at, step, from + i * LANES, metal::min(packs, (PACKS + KEPT) * LANES), some);
  for (int j = 0; j < 4 && i + j < KEPT; ++j) {
    if (from + (i + j) * LANES < packs) {
      most = larger_of(some[j], most);
      kept[(i + j) * LANES + int(t)] = some[j];
    }
  }
}
#endif
most = larger_of<PACKS>(own, int(t), packs, most);
const A at_edge = AT_EDGE;  // is not waited for before the packs are on their way
const A best = larger(at_edge, value_of(most));
Found found{best, power(at_edge, level_of(best)) +
                      sum_of<PACKS>(own, int(t), packs, level_of(best))};
#if KEPT > 0
for (int i = 0; i < KEPT && from + i * LANES < packs; ++i) {
  Input pack = kept[i * LANES + int(t)];
  found.sum += sum_of(pack, level_of(best));
  if (POWERS) kept[i * LANES + int(t)] = pack;
}
#endif
#if AGAIN
found = found_from(at, step, (PACKS + KEPT) * LANES + int(t), packs, found);
#endif
const Found all = joined(found, meeting, t);
)" + kLongTarget + R"(
#if AGAIN
write_from(at, step, (PACKS + KEPT) * LANES + int(t), packs, level, scale, target, TO_STEP,
           aligned);
#endif
const A own_scale =
    POWERS && best != A(-INFINITY) ? scale * power_of(level_of(best) - level) : scale;
write<PACKS, POWERS>(own, int(t), packs, level, own_scale, target, TO_STEP, aligned);
#if KEPT > 0
for (int i = 0; i < KEPT && from + i * LANES < packs; ++i) {
  const Input pack = kept[i * LANES + int(t)];
  write<POWERS>(pack, level, own_scale, target + long(from + i * LANES) * VECTOR * TO_STEP, TO_STEP,
                aligned);
}
#endif
)",
                 weak_header() + kHeadText + kJoinedText + kLongText));
  return kernel;
}
const Kernel& weak_softmax_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      softmax_of("softmax_columns_weak", std::string(kGroupNumberText) + kWeakSoftmaxColumns,
                 std::string(kWholeText) + kFoundText));
  return kernel;
}
const Kernel& weak_softmax_pieces_kernel() {
  static const NeverDestroyed<Kernel> kernel(first_of_pieces(
      softmax_of("softmax_pieces_weak", std::string(kGroupNumberText) + kWeakRow + kLongRow + R"(
threadgroup Found meeting[SIMDS];
Found found = found_from(at, step, int(t), packs, {A(-INFINITY), A(0)});
const A best = larger(found.best, AT_EDGE);
found = {best, sum_below(found, best) + power(AT_EDGE, level_of(best))};
found = joined(found, meeting, t);
if (t == 0) {
  const long to = number * long(threadgroups_per_grid.z) + piece;
  largests[to] = found.best;
  sums[to] = found.sum;
}
)",
                 weak_header() + kHeadText + kJoinedText + kLongText)));
  return kernel;
}
const Kernel& weak_softmax_join_kernel() {
  static const NeverDestroyed<Kernel> kernel(second_of_pieces(
      softmax_of("softmax_join_weak", std::string(kGroupNumberText) + kWeakRow + kLongRow + R"(
threadgroup Found meeting[SIMDS];
const int pieces = int(threadgroups_per_grid.z);
Found all{A(-INFINITY), A(0)};
for (int p = int(t); p < pieces; p += LANES) {
  const long k = number * pieces + p;
  const Found other{largests[k], sums[k]};
  const A best = larger(all.best, other.best);
  all = {best, sum_below(all, best) + sum_below(other, best)};
}
all = joined(all, meeting, t);
)" + kLongTarget + R"(
write_from(at, step, int(t), packs, level, scale, target, TO_STEP, aligned);
)",
                 weak_header() + kHeadText + kJoinedText + kLongText)));
  return kernel;
}

}  // namespace holdfast::array
