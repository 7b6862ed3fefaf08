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
  // Nothing but minus infinity counts for nothing, unless there is nothing else.
  const A of = largests[row_of_pieces + p];
  sum += of == best ? sums[row_of_pieces + p]
                    : (of == A(-INFINITY) ? A(0) : sums[row_of_pieces + p] * exp_below(of - best));
}
)";

constexpr const char* kSumBelowText = R"(
// The sum of powers below `from`, of powers below `to`, which is not less. Nothing but minus
// infinity counts for nothing.
inline A sum_below(A sum, A from, A to) {
  if (from == to) return sum;
  return from == A(-INFINITY) ? A(0) : sum * exp_below(from - to);
}
)";
// Many weak threads: LANES of them have a row, or a piece of one, in chunks of PACKS packs of
// VECTOR elements for each. The packs of a row begin where memory is aligned: the first and the
// last may have elements outside of it, which count as minus infinity.
constexpr const char* kWeakText = R"(
constexpr uint SIMDS = LANES > 32 ? LANES / 32 : 1;
// How far past such a place a row begins.
template <class P>
inline int head_of(P row) {
  const device ElementOf<P>* p = row;
  return int(reinterpret_cast<ulong>(p) / sizeof(*p) % VECTOR);
}
// N packs that a thread has from `from` on; `at` is where that would be. Where all are within the
// row, they are on their way before the first is needed; others are waited for one by one where
// they have to be converted.
template <int N, class P>
inline void load_packs(P at, long step, int n, int from, thread A* values) {
  if (from >= 0 && from + ((N - 1) * LANES + 1) * VECTOR <= n) {
    Pack<ElementOf<P>, VECTOR> packs[N];
    for (int p = 0; p < N; ++p) packs[p] = load_pack<VECTOR>(at + p * LANES * VECTOR * step);
    for (int i = 0; i < N * VECTOR; ++i) {
      values[i] = load<A, HALF>(packs[i / VECTOR].at[i % VECTOR]);
    }
    return;
  }
  for (int p = 0; p < N; ++p) {
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
    Pack<R, VECTOR> pack;
    for (int j = 0; j < VECTOR; ++j) pack.at[j] = R(values[j] * scale);
    store_pack<VECTOR>(at + k * step, pack);
  } else {
    for (int j = 0; j < VECTOR; ++j) {
      if ((p > 0 || from + j >= 0) && from + k + j < n) at[(k + j) * step] = R(values[j] * scale);
    }
  }
}
// What the values of all threads of a row come to, in one order on all runs.
template <class F>
inline A joined_in_row(A v, threadgroup A* meeting, uint t, F of) {
  for (uint distance = (LANES < 32 ? LANES : 32) / 2; distance > 0; distance /= 2) {
    v = of(v, simd_shuffle_xor(v, distance));
  }
  if (LANES > 32) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t % 32 == 0) meeting[t / 32] = v;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    // One by one: all at once need registers that a second threadgroup would have.
    v = meeting[0];
#pragma unroll 1
    for (uint i = 1; i < SIMDS; ++i) v = of(v, meeting[i]);
  }
  return v;
}
)";
// A row, or a piece of it: n elements at `row`, of which the thread has every LANES-th pack.
constexpr const char* kWeakRow = R"(
const uint t = thread_index_in_threadgroup;
const int lane = int(t % LANES);
const long mine = number * (long(threads_per_threadgroup.x) / LANES) + t / LANES;
const bool is_there = mine < rows;
const long which = is_there ? mine : rows - 1;
const int last = x_ndim - 1;
const long step = DENSE ? 1 : x_strides[last];
const long whole = x_shape[last];
const long begin = piece * piece_length;
const int n = int(metal::min(piece_length, whole - begin));
const long pieces = threadgroups_per_grid.z;
const long row_of_pieces = which * pieces;
#if EVEN
auto row = x + (which * x_strides[last - 1] + begin * step);
#else
auto row = x + (elem_to_loc(which, x_shape, x_strides, last) + begin * step);
#endif
const int head = head_of(row);
const int chunk = LANES * PACKS * VECTOR;
const int chunks = (head + n + chunk - 1) / chunk;
const int first = lane * VECTOR - head;
A values[PACKS * VECTOR];
)";
// The chunk that is read last stays in `values`, as powers below the thread's own largest element.
constexpr const char* kWeakLargestAndSum = R"(
threadgroup A meeting[SIMDS];
A own = A(-INFINITY);
A own_sum = A(0);
for (int c = chunks - 1; c >= 0; --c) {
  const int from = first + c * chunk;
  load_packs<PACKS>(row + from * step, step, n, from, values);
  A most = own;
  for (int i = 0; i < PACKS * VECTOR; ++i) most = larger(most, values[i]);
  const A below = most == A(-INFINITY) ? A(0) : most;
  A part = A(0);
  for (int i = 0; i < PACKS * VECTOR; ++i) {
    values[i] = exp_below(values[i] - below);
    part += values[i];
  }
  own_sum = part + sum_below(own_sum, own, most);
  own = most;
}
const A best = joined_in_row(own, meeting, t, [](A a, A b) { return larger(a, b); });
const A sum = joined_in_row(sum_below(own_sum, own, best), meeting, t,
                            [](A a, A b) { return a + b; });
)";
constexpr const char* kWeakTarget = R"(
const A scale = A(1) / sum;
#if DENSE
const long to_step = 1;
auto to = y + (which * whole + begin);
#else
const long to_step = y_step;
auto to = y + (which / y_step * whole * y_step + which % y_step + begin * y_step);
#endif
const bool aligned = head_of(to) == head;
)";
constexpr const char* kWeakWrite = R"(
constexpr int AGAIN = PACKS < 4 ? PACKS : 4;
for (; from < n; from += AGAIN * LANES * VECTOR) {
  auto target = to + from * to_step;
  load_packs<AGAIN>(row + from * step, step, n, from, values);
  for (int i = 0; i < AGAIN * VECTOR; ++i) values[i] = exp_below(values[i] - best);
  for (int p = 0; p < AGAIN; ++p) {
    store_at(target, to_step, aligned, n, from, p, values + p * VECTOR, scale);
  }
}
)";

// Rows side by side, y_step of them: a threadgroup has 32, and each of its HEIGHT simdgroups every
// HEIGHT-th element.
constexpr const char* kWeakSoftmaxColumns = R"(
constexpr int AHEAD = 8;
threadgroup A largests[HEIGHT][32];
threadgroup A tile[HEIGHT][32];
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
A own = A(-INFINITY);
A own_sum = A(0);
for (long k = me.y; k < n; k += HEIGHT * AHEAD) {
  A most = own;
  for (int j = 0; j < AHEAD; ++j) {
    const long at = k + j * HEIGHT;
    values[j] = at < n ? load<A, HALF>(from[at * step]) : A(-INFINITY);
  }
  for (int j = 0; j < AHEAD; ++j) most = larger(most, values[j]);
  const A below = most == A(-INFINITY) ? A(0) : most;
  A part = A(0);
  for (int j = 0; j < AHEAD; ++j) part += exp_below(values[j] - below);
  own_sum = part + sum_below(own_sum, own, most);
  own = most;
}
largests[me.y][me.x] = own;
tile[me.y][me.x] = own_sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
A best = A(-INFINITY);
for (int i = 0; i < HEIGHT; ++i) best = largests[i][me.x] > best ? largests[i][me.x] : best;
A sum = A(0);
for (int i = 0; i < HEIGHT; ++i) sum += sum_below(tile[i][me.x], largests[i][me.x], best);
if (column < y_step) {
  const A scale = A(1) / sum;
  auto to = y + (line * n * y_step + column);
  for (long k = me.y; k < n; k += HEIGHT * AHEAD) {
    for (int j = 0; j < AHEAD; ++j) {
      const long at = k + j * HEIGHT;
      if (at < n) values[j] = load<A, HALF>(from[at * step]);
    }
    for (int j = 0; j < AHEAD; ++j) {
      const long at = k + j * HEIGHT;
      if (at < n) to[at * y_step] = R(exp_below(values[j] - best) * scale);
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
sums[i * pieces + piece] = sum_of_powers(row + begin * step, length, step, best);
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

const Kernel& weak_softmax_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      softmax_of("softmax_weak", std::string(kGroupNumberText) + kWeakRow + kWeakLargestAndSum + R"(
if (is_there) {
)" + kWeakTarget + R"(
  const A powers = own == A(-INFINITY) ? A(0) : exp_below(own - best);
  auto target = to + first * to_step;
  for (int p = 0; p < PACKS; ++p) {
    store_at(target, to_step, aligned, n, first, p, values + p * VECTOR, powers * scale);
  }
  int from = first + chunk;
)" + kWeakWrite + R"(
}
)",
                 std::string(kPackText) + kSumBelowText + kWeakText));
  return kernel;
}
const Kernel& weak_softmax_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(softmax_of(
      "softmax_columns_weak", std::string(kGroupNumberText) + kWeakSoftmaxColumns, kSumBelowText));
  return kernel;
}
const Kernel& weak_softmax_pieces_kernel() {
  static const NeverDestroyed<Kernel> kernel(first_of_pieces(softmax_of(
      "softmax_pieces_weak", std::string(kGroupNumberText) + kWeakRow + kWeakLargestAndSum + R"(
if (t == 0) {
  largests[row_of_pieces + piece] = best;
  sums[row_of_pieces + piece] = sum;
}
)",
      std::string(kPackText) + kSumBelowText + kWeakText)));
  return kernel;
}
const Kernel& weak_softmax_join_kernel() {
  static const NeverDestroyed<Kernel> kernel(second_of_pieces(
      softmax_of("softmax_join_weak", std::string(kGroupNumberText) + kWeakRow + R"(
threadgroup A meeting[SIMDS];
A best = A(-INFINITY);
for (long p = lane; p < pieces; p += LANES) {
  const A v = largests[row_of_pieces + p];
  best = v > best ? v : best;
}
best = joined_in_row(best, meeting, t, [](A a, A b) { return larger(a, b); });
A sum = A(0);
for (long p = lane; p < pieces; p += LANES) {
  sum += sum_below(sums[row_of_pieces + p], largests[row_of_pieces + p], best);
}
sum = joined_in_row(sum, meeting, t, [](A a, A b) { return a + b; });
)" + kWeakTarget + R"(
int from = first;
)" + kWeakWrite,
                 std::string(kPackText) + kSumBelowText + kWeakText)));
  return kernel;
}

}  // namespace holdfast::array
