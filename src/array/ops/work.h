#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "holdfast/array/layouts.h"
#include "holdfast/base/error.h"
#include "holdfast/base/rounding.h"
#include "holdfast/hal/device_info.h"
#include "holdfast/operation.h"

// How operations that are no elementwise expressions cut their work into threads.
namespace holdfast::array {

// An axis of a grid. UsageError where it is longer than grids are.
inline uint32_t grid_axis(int64_t threads, const char* what) {
  if (threads > std::numeric_limits<uint32_t>::max()) {
    throw UsageError(fmt::format(
        "{}: {} pieces of work are more than one launch takes; call it for parts of the array",
        what, threads));
  }
  return static_cast<uint32_t>(threads);
}

// Operations have a second body where a GPU wants another than a CPU: see hal::ThreadStyle. Its
// threadgroups have this many threads, in whole simdgroups: eight, which every GPU has room for. A
// multiprocessor of an NVIDIA GPU holds eight such groups, or four of bodies with 64 registers.
inline constexpr uint32_t kWeakGroup = 256;
// Whether to record the body for many weak threads.
inline bool is_many_weak(const Encoder& encoder) noexcept {
  const hal::DeviceInfo& device = encoder.device();
  return device.thread_style == hal::ThreadStyle::many_weak &&
         device.max_group_threads >= kWeakGroup;
}

// Whether bodies may use what compilers for CPUs alone have, such as vectors, and large arrays of a
// thread's own. The body for few strong threads runs on GPUs, too, where a test asks for it.
inline bool is_cpu(const Encoder& encoder) noexcept {
  return !is_many_weak(encoder) && encoder.device().module_form == hal::ModuleForm::host_function;
}

// A threadgroup for threads that do not meet. A few simdgroups along the first axis; of many weak
// threads as many as fit, so that short axes leave none of them idle.
inline kernel::Size3 group_of(const Encoder& encoder, const kernel::Size3& grid) noexcept {
  if (!is_many_weak(encoder)) return {std::clamp(grid.x, uint32_t{1}, uint32_t{64}), 1, 1};
  const uint32_t x = std::clamp(grid.x, uint32_t{1}, kWeakGroup);
  const uint32_t y = std::clamp(grid.y, uint32_t{1}, kWeakGroup / x);
  const uint32_t z = std::clamp(grid.z, uint32_t{1}, std::min(kWeakGroup / x / y, uint32_t{64}));
  return {x, y, z};
}

// Threadgroups of threads that meet: all are whole. They are numbered, in rows of the grid, since
// one axis may be too short for all; and there are `pieces` of each number, along z. A body finds
// its number by kGroupNumberText.
struct WeakGroups {
  kernel::Size3 grid;
  kernel::Size3 group;
  kernel::Param count;
};
inline WeakGroups weak_groups(int64_t count, const kernel::Size3& group, int64_t pieces,
                              const char* what) {
  constexpr int64_t kWide = int64_t{1} << 20;
  const int64_t wide = std::min(count, kWide);
  return {{static_cast<uint32_t>(wide) * group.x,
           grid_axis(ceil_div(count, wide) * int64_t{group.y}, what), grid_axis(pieces, what)},
          group,
          {"group_count", count}};
}
// Groups of one axis, and those with a simdgroup for each y.
inline constexpr kernel::Size3 kWeakLine{kWeakGroup, 1, 1};
inline constexpr int64_t kWeakWidth = 32;
inline constexpr int64_t kWeakHeight = kWeakGroup / kWeakWidth;
inline constexpr kernel::Size3 kWeakTile{kWeakWidth, kWeakHeight, 1};
// Groups that keep a GPU busy: fewer are cut into pieces.
inline constexpr int64_t kWeakGroups = 512;

// The first lines of such a body: `number` and `piece` of the threadgroup.
inline constexpr const char* kGroupNumberText = R"(
const long number = long(threadgroup_position_in_grid.y) * long(threadgroups_per_grid.x) +
                    long(threadgroup_position_in_grid.x);
const long piece = threadgroup_position_in_grid.z;
if (number >= group_count) return;
)";
// For the header: what the values of all threads of a line come to, in one order on all runs. All
// threads call it, with memory for eight values; `t` is the thread's index.
inline constexpr const char* kJoinText = R"(
template <class T, class F>
T joined_in_group(T v, threadgroup T* meeting, uint t, F of) {
  for (uint distance = 16; distance > 0; distance /= 2) {
    v = of(v, simd_shuffle_xor(v, distance));
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t % 32 == 0) meeting[t / 32] = v;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  v = meeting[0];
  for (int i = 1; i < 8; ++i) v = of(v, meeting[i]);
  return v;
}
)";

// For the header: simdgroups of which all threads are there.
inline constexpr const char* kWholeText = R"(
// simd_shuffle_xor() of such a one: one instruction for 32 bits.
template <class T> inline T from_beside(T v, uint distance) {
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    return __shfl_xor_sync(0xffffffffu, v, int(distance));
  }
#endif
  return simd_shuffle_xor(v, distance);
}
)";
// For the header: pairs of halves in a word.
inline constexpr const char* kPairsText = R"(
// PAIRS: there are instructions for two halves at once, which lie in a word.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && HALF
#define PAIRS
// The larger ones; NaN only of two of them, or of one.
inline uint larger_pair(uint a, uint b) {
  uint v;
  asm("max.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
inline uint larger_pair_or_nan(uint a, uint b) {
  uint v;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
inline uint smaller_pair_or_nan(uint a, uint b) {
  uint v;
  asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
inline float low_of(uint pair) { return float(as_type<half>(ushort(pair))); }
inline float high_of(uint pair) { return float(as_type<half>(ushort(pair >> 16))); }
// Of all pairs of a pack.
template <class P, class F> inline uint joined_pairs(const thread P& pack, F of) {
  uint v[sizeof(P) / 4];
  __builtin_memcpy(v, &pack, sizeof(P));
  for (int width = int(sizeof(P) / 8); width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) v[j] = of(v[j], v[j + width]);
  }
  return v[0];
}
#endif
)";

// For the header: several elements that lie side by side, moved at once, or 16 bytes at a time,
// where memory is aligned for that. The address itself is asked, since memory of others begins
// anywhere; neighbouring threads get the same answer.
inline constexpr const char* kPackText = R"(
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T at[N]; };
template <class T> struct Plain { using type = T; };
template <class T> struct Plain<const T> { using type = T; };
template <class T> struct Plain<T&> : Plain<T> {};
template <class P> using ElementOf = typename Plain<decltype(*P())>::type;
template <int N, class P> inline bool is_aligned(P at) {
  const device ElementOf<P>* p = at;
  return (reinterpret_cast<ulong>(p) & (alignof(Pack<ElementOf<P>, N>) - 1)) == 0;
}
template <int N, class P> inline Pack<ElementOf<P>, N> load_pack(P at) {
  const device ElementOf<P>* p = at;
  return *reinterpret_cast<const device Pack<ElementOf<P>, N>*>(p);
}
template <int N, class P> inline void store_pack(P at, const Pack<ElementOf<P>, N>& pack) {
  device ElementOf<P>* p = at;
  *reinterpret_cast<device Pack<ElementOf<P>, N>*>(p) = pack;
}
)";
// Bytes that a thread moves at once.
inline constexpr int64_t kPackBytes = 16;
// For the header: moves a row of `inner` elements, by all threads of the grid's x axis: thread x of
// `wide` has PACKS packs of VECTOR elements, as far apart as the grid is wide. See PackedRows.
inline constexpr const char* kMoveText = R"(
template <class P, class Q>
inline void move_row(P from, Q to, uint inner, uint x, uint wide) {
  if (is_aligned<VECTOR>(from) && is_aligned<VECTOR>(to)) {
    // All on their way before the first is needed.
    Pack<ElementOf<Q>, VECTOR> packs[PACKS];
    for (uint each = 0; each < PACKS; ++each) {
      const uint k = (x + each * wide) * VECTOR;
      if (k < inner) packs[each] = load_pack<VECTOR>(from + k);
    }
    for (uint each = 0; each < PACKS; ++each) {
      const uint k = (x + each * wide) * VECTOR;
      if (k < inner) store_pack<VECTOR>(to + k, packs[each]);
    }
  } else {
    for (uint k = x; k < inner; k += wide) to[k] = from[k];
  }
}
)";
// For a body whose threads have VECTOR elements each, of `count` along x: EACH_APART(k, statement)
// has as many as that for each thread, as far apart as the threadgroup is wide, so that
// neighbouring threads have neighbouring elements.
inline constexpr const char* kEachText = R"(
#define EACH_APART(k, ...)                                                                     \
  {                                                                                            \
    const uint width = threads_per_threadgroup.x;                                              \
    const uint from = threadgroup_position_in_grid.x * dispatch_threads_per_threadgroup.x *    \
                          VECTOR +                                                             \
                      thread_position_in_threadgroup.x;                                        \
    if (from + (VECTOR - 1) * width < count) {                                                 \
      for (uint each = 0; each < VECTOR; ++each) {                                             \
        const uint k = from + each * width;                                                    \
        __VA_ARGS__                                                                            \
      }                                                                                        \
    } else {                                                                                   \
      for (uint k = from; k < count; k += width) {                                             \
        __VA_ARGS__                                                                            \
      }                                                                                        \
    }                                                                                          \
  }
)";

// How many weak threads move rows of `inner` elements: rows along y and z of the grid, `rows_y`
// along y, and of each row `packs` packs of `vector` elements for each thread, as many of both as
// rows have. A row begins at any multiple of `step` elements.
struct PackedRows {
  int64_t vector;
  int64_t packs;
  kernel::Size3 grid;
  uint32_t rows_y;

  PackedRows(int64_t rows, int64_t inner, int64_t step, int64_t bytes, int64_t most_packs)
      : vector(std::min(kPackBytes / bytes, lowest_bit(inner | step))),
        packs(std::clamp(inner / vector / kFewThreads, int64_t{1}, most_packs)),
        grid{static_cast<uint32_t>(ceil_div(inner, vector * packs)), 1, 1},
        rows_y(static_cast<uint32_t>(std::min(rows, kMostAlongY))) {
    grid.y = rows_y;
    grid.z = static_cast<uint32_t>(ceil_div(rows, int64_t{rows_y}));
  }
  // Whether rows are few and short enough for 32 bits.
  static bool fit(int64_t rows, int64_t inner) {
    return rows <= std::numeric_limits<int32_t>::max() &&
           inner <= std::numeric_limits<int32_t>::max();
  }

 private:
  static constexpr int64_t kMostAlongY = 32768;
  static constexpr int64_t kFewThreads = 8;  // read 128 bytes side by side
  static int64_t lowest_bit(int64_t of) { return of & -of; }
};

// What each thread of a grid does of `steps` in all; see kernel::Launch::work_per_thread.
inline uint32_t share_of(double steps, const kernel::Size3& grid) noexcept {
  const double threads = double{static_cast<double>(grid.x)} * grid.y * grid.z;
  return static_cast<uint32_t>(std::clamp(steps / std::max(threads, 1.0), 1.0, 1e6));
}

// Kernels have an operand without dimensions as a value: the same with one, so that it is a
// pointer.
inline Operand with_dimension(const Operand& operand) {
  if (!operand.shape().empty()) return operand;
  return operand.with_layout({{1}, {1}, operand.layout().offset});
}

// Kernels that walk through axes have a variant for each number of them. So there are three or
// kMaxDims: axes of length one go before the others.
inline Layout with_usual_rank(const Layout& layout) {
  const size_t rank = layout.shape.size();
  const size_t more = (rank <= 3 ? 3 : Dims::kMaxDims) - rank;
  Layout result{Dims::filled(more, 1), Dims::filled(more, 0), layout.offset};
  for (size_t i = 0; i < rank; ++i) {
    result.shape.push_back(layout.shape[i]);
    result.strides.push_back(layout.strides[i]);
  }
  return result;
}

// The axes but one, joined where that is possible, and then that one; of usual rank.
inline Layout with_axis_last(const Layout& layout, size_t axis) {
  Layout result{.offset = layout.offset};
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    if (i == axis) continue;
    result.shape.push_back(layout.shape[i]);
    result.strides.push_back(layout.strides[i]);
  }
  collapse({&result, 1});
  result.shape.push_back(layout.shape[axis]);
  result.strides.push_back(layout.strides[axis]);
  return with_usual_rank(result);
}

// For the header of kernels that read many elements: load<A, HALF>(x[i]) is A(x[i]), of an x that
// was bound through as_bits(), with HALF for is_half(). GCC makes no vectors of conversions of
// halves, and compares halves by calling a function even where the text has floats of them; of this
// it does: sums are twice as fast, maxima a hundred times.
inline constexpr const char* kLoadText = R"(
template <class A, bool kHalf, class T>
inline A load(T v) {
  if constexpr (!kHalf) {
    return A(v);
  } else {
#if defined(__x86_64__) && !defined(__clang__) && !defined(__CUDACC__) && !defined(__AVX512FP16__)
    const uint bits = uint(v);
    const uint sign = (bits & 0x8000u) << 16;
    const uint rest = (bits & 0x7fffu) << 13;
    const uint scaled = as_type<uint>(as_type<float>(rest) * 0x1p112f);
    const uint special = rest | 0x7f800000u;
    return A(as_type<float>(sign | (rest < 0x0f800000u ? scaled : special)));
#else
    return A(as_type<half>(ushort(v)));
#endif
  }
}
)";
inline bool is_half(const Operand& operand) noexcept { return operand.dtype() == Dtype::float16; }
inline Operand as_bits(const Operand& operand) {
  return is_half(operand) ? operand.viewed_as(Dtype::uint16) : operand;
}

// For the header of kernels for few strong threads: convert<N>(from, to) converts N elements that
// lie side by side; N is a multiple of 16. GCC makes no vectors of conversions of halves, so those
// are written with what a processor has for them.
inline constexpr const char* kConvertText = R"(
template <int N, class T, class U> inline void convert(const thread T* from, thread U* to) {
  for (int j = 0; j < N; ++j) to[j] = U(from[j]);
}
#if defined(__F16C__) && !defined(__clang__) && !defined(__CUDACC__)
#if defined(__AVX512F__)
typedef short Halves __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(64)));
inline Floats floats_of(Halves v) {
  return __builtin_ia32_vcvtph2ps512_mask(v, Floats{}, ushort(-1), 4);
}
inline Halves halves_of(Floats v) {
  return __builtin_ia32_vcvtps2ph512_mask(v, 0, Halves{}, ushort(-1));
}
#else
typedef short Halves __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(32)));
inline Floats floats_of(Halves v) { return __builtin_ia32_vcvtph2ps256(v); }
inline Halves halves_of(Floats v) { return __builtin_ia32_vcvtps2ph256(v, 0); }
#endif
template <int N> inline void convert(const thread half* from, thread float* to) {
  for (int j = 0; j < N; j += int(sizeof(Floats) / sizeof(float))) {
    Halves halves;
    __builtin_memcpy(&halves, from + j, sizeof(halves));
    const Floats floats = floats_of(halves);
    __builtin_memcpy(to + j, &floats, sizeof(floats));
  }
}
template <int N> inline void convert(const thread float* from, thread half* to) {
  for (int j = 0; j < N; j += int(sizeof(Floats) / sizeof(float))) {
    Floats floats;
    __builtin_memcpy(&floats, from + j, sizeof(floats));
    const Halves halves = halves_of(floats);
    __builtin_memcpy(to + j, &halves, sizeof(halves));
  }
}
#endif
)";

// For the header of kernels for CPUs: load_square(from, step, down, wide, high, square) reads
// `high` lines of `wide` elements, which lie `step` and whose lines lie `down` apart. Where lines
// are what lies side by side, it goes along them, in small squares that are turned in registers.
inline constexpr const char* kSquareText = R"(
template <int L> struct Lanes;
#define LANES_OF(L, T, LOW, HIGH)                                                       \
  template <> struct Lanes<L> {                                                         \
    typedef T V __attribute__((vector_size(16)));                                       \
    static inline V low(V a, V b) { return __builtin_shufflevector(a, b, LOW); }         \
    static inline V high(V a, V b) { return __builtin_shufflevector(a, b, HIGH); }       \
  };
#define LIST(...) __VA_ARGS__
LANES_OF(2, ulong, LIST(0, 2), LIST(1, 3))
LANES_OF(4, uint, LIST(0, 4, 1, 5), LIST(2, 6, 3, 7))
LANES_OF(8, ushort, LIST(0, 8, 1, 9, 2, 10, 3, 11), LIST(4, 12, 5, 13, 6, 14, 7, 15))
LANES_OF(16, uchar, LIST(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
         LIST(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
#undef LIST
#undef LANES_OF
// L x L elements: each step interleaves the first half of the lines with the second.
template <class T> inline void turn(const T* from, long step, T* to, long to_step) {
  constexpr int L = int(16 / sizeof(T));
  using V = typename Lanes<L>::V;
  V lines[L];
  for (int i = 0; i < L; ++i) __builtin_memcpy(&lines[i], from + i * step, 16);
  for (int n = 1; n < L; n *= 2) {
    V next[L];
    for (int i = 0; i < L / 2; ++i) {
      next[2 * i] = Lanes<L>::low(lines[i], lines[i + L / 2]);
      next[2 * i + 1] = Lanes<L>::high(lines[i], lines[i + L / 2]);
    }
    for (int i = 0; i < L; ++i) lines[i] = next[i];
  }
  for (int i = 0; i < L; ++i) __builtin_memcpy(to + i * to_step, &lines[i], 16);
}
template <class T, int N>
inline void load_square(const T* from, long step, long down, int wide, int high, T (*square)[N]) {
  constexpr int L = int(16 / sizeof(T));
  const int turned_wide = down == 1 ? wide / L * L : 0;
  const int turned_high = high / L * L;
  for (int k = 0; k < turned_wide; k += L) {
    for (int j = 0; j < turned_high; j += L) turn(from + k * step + j, step, &square[j][k], N);
    for (int j = turned_high; j < high; ++j) {
      for (int i = k; i < k + L; ++i) square[j][i] = from[i * step + j];
    }
  }
  for (int k = turned_wide; k < wide; ++k) {
    for (int j = 0; j < high; ++j) square[j][k] = from[k * step + j * down];
  }
}
)";
// The side of such squares, of elements of that size: lines of 512 bytes, shorter than which a
// processor hardly fetches ahead; at most 256 of them, so that a square fits into a core's cache.
// Of lines of 128 to 1024 bytes the fastest in a loop like
// operation/add_transposed/float32/4096x4096 on one core; other sizes of elements were not
// compared.
inline int64_t square_side(Dtype dtype) noexcept {
  return std::min<int64_t>(512 / static_cast<int64_t>(size_of(dtype).value), 256);
}

// What floats are computed in.
constexpr Dtype accumulator_of(Dtype floating) noexcept {
  return floating == Dtype::float64 ? Dtype::float64 : Dtype::float32;
}

}  // namespace holdfast::array
