#include <fmt/format.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "holdfast/array/ops/rows.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

constexpr const char* kHeader = R"(
// Whether a later element replaces what was best so far: it is larger (LEAST: smaller), or the
// first NaN.
inline bool better(C v, C best) { return best == best && !(LEAST ? v >= best : v <= best); }
)";

// Of elements that several threads look at: the first of the best ones. See kRowsText.
constexpr const char* kRunningText = R"(
// The better of two, or NaN.
inline C best_of(C a, C b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (C(0.5f) != C(0) && sizeof(C) == 4) {  // one instruction
    float v;
    if (LEAST) {
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(float(a)), "f"(float(b)));
    } else {
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(float(a)), "f"(float(b)));
    }
    return C(v);
  }
#endif
  return better(b, a) ? b : a;
}
template <class T, int N> inline C best_of(const thread Pack<T, N>& pack) {
#ifdef PAIRS
  const uint pair = joined_pairs(pack, [](uint a, uint b) {
    return LEAST ? smaller_pair_or_nan(a, b) : larger_pair_or_nan(a, b);
  });
  return best_of(low_of(pair), high_of(pair));
#else
  C v[N];
  for (int j = 0; j < N; ++j) v[j] = load<C, HALF>(pack.at[j]);
  for (int width = N / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) v[j] = best_of(v[j], v[j + width]);
  }
  return v[0];
#endif
}
struct Running {
  C best;
  uint at;
  template <class T> void take(T x, uint place) {
    const C v = load<C, HALF>(x);
    const bool is_better = better(v, best);
    best = is_better ? v : best;
    at = is_better ? place : at;
  }
  // A pack seldom has a better one: only then it is asked where.
  template <class T, int N> void take_pack(const thread Pack<T, N>& pack, uint place, bool) {
    const C most = best_of(pack);
    if (!better(most, best)) return;
    best = most;
    for (int j = N - 1; j >= 0; --j) {
      const C v = load<C, HALF>(pack.at[j]);
      at = v == most || v != v ? place + j : at;
    }
  }
  void meet(Running other) {
    if (better(other.best, best) || (!better(best, other.best) && other.at < at)) *this = other;
  }
  Running from(uint distance) const {
    return {from_beside(best, distance), from_beside(at, distance)};
  }
};
template <class T> inline Running started(T v, uint place) { return {load<C, HALF>(v), place}; }
// Nothing is better than infinity but what is: of infinities alone the first is the answer.
template <class P> inline Running nothing(P row) {
  if constexpr (C(1.5f) != C(1)) {
    return {LEAST ? C(INFINITY) : C(-INFINITY), 0u};
  } else {
    return started(row[0], 0);
  }
}
#define RESULT(running, begin) (uint(begin) + (running).at)
)";

// x has the axis last. A thread looks at a piece of it; results lie [piece, kept].
const Kernel& pieces_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "argmax",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = R"(
constexpr int LANES = 32;
const long i = thread_position_in_grid.x;
const long piece = thread_position_in_grid.y;
const int last = x_ndim - 1;
const long step = x_strides[last];
const long begin = piece * piece_length;
const long end = metal::min(begin + piece_length, long(x_shape[last]));
auto row = x + elem_to_loc(i, x_shape, x_strides, last);
C best = load<C, HALF>(row[begin * step]);
long found = begin;
long k = begin;
if (step == 1 && end - begin >= 2 * LANES) {
  // The first of every LANES-th, then the first of those.
  C bests[LANES];
  uint at[LANES];
  for (int j = 0; j < LANES; ++j) {
    bests[j] = load<C, HALF>(row[k + j]);
    at[j] = uint(k);
  }
  for (k += LANES; k + LANES <= end; k += LANES) {
    for (int j = 0; j < LANES; ++j) {
      const C v = load<C, HALF>(row[k + j]);
      const bool is_better = better(v, bests[j]);
      bests[j] = is_better ? v : bests[j];
      at[j] = is_better ? uint(k) : at[j];
    }
  }
  for (int j = 0; j < LANES; ++j) {
    const long mine = long(at[j]) + j;
    if (better(bests[j], best) || (!better(best, bests[j]) && mine < found)) {
      best = bests[j];
      found = mine;
    }
  }
}
for (; k < end; ++k) {
  const C v = load<C, HALF>(row[k * step]);
  if (better(v, best)) {
    best = v;
    found = k;
  }
}
y[piece * long(threads_per_grid.x) + i] = uint(found);
)",
                         .header = std::string(array::kLoadText) + kHeader});
  return kernel;
}

std::string weak_header() {
  return std::string(array::kPairsText) + array::kWholeText + kHeader + kRunningText;
}

// The same for many weak threads, of rows whose elements lie side by side: see WeakRows.
const Kernel& weak_rows_kernel(bool is_short) {
  static const NeverDestroyed<Kernel> rows(
      array::rows_kernel("argmax_rows_weak", weak_header(), false));
  static const NeverDestroyed<Kernel> short_rows(
      array::rows_kernel("argmax_short_rows_weak", weak_header(), true));
  return is_short ? short_rows : rows;
}

// Of a threadgroup for each row. `found` is what it has found, by then of each thread.
kernel::Definition weak_row(std::string name, std::vector<std::string> inputs, const char* source) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .outputs = {"y"},
          .source = std::string(array::kGroupNumberText) + R"(
threadgroup Running meeting[8];
const uint t = thread_index_in_threadgroup;
const int last = x_ndim - 1;
const long step = x_strides[last];
auto row = x + elem_to_loc(number, x_shape, x_strides, last);
)" + source + R"(
found = met<256>(found, meeting, t);
if (t == 0) y[piece * group_count + number] = found.at;
)",
          .header =
              std::string(array::kLoadText) + array::kPackText + weak_header() + array::kRowsText};
}

// Elements that lie anywhere, of a piece.
const Kernel& weak_apart_kernel() {
  static const NeverDestroyed<Kernel> kernel(weak_row("argmax_apart_weak", {"x"}, R"(
const long begin = piece * piece_length;
const long end = metal::min(begin + piece_length, long(x_shape[last]));
Running found = started(row[begin * step], uint(begin));
for (long k = begin + t; k < end; k += 256) found.take(row[k * step], uint(k));
)"));
  return kernel;
}

// Of the positions that were best in their pieces, as weak_rows_kernel() leaves them, the best.
const Kernel& weak_last_kernel() {
  static const NeverDestroyed<Kernel> kernel(weak_row("argmax_of_pieces_weak", {"x", "places"}, R"(
auto mine = places + number * pieces;
Running found = started(row[long(mine[0]) * step], mine[0]);
// Eight on their way at once; where there are no more, the last again.
for (long k = t; k < pieces; k += 8 * 256) {
  Running some[8];
  for (int u = 0; u < 8; ++u) {
    const uint place = mine[metal::min(k + u * 256, pieces - 1)];
    some[u] = started(row[long(place) * step], place);
  }
  for (int u = 0; u < 8; ++u) found.meet(some[u]);
}
)"));
  return kernel;
}

// Of the positions that were best in their pieces, the best.
const Kernel& last_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "argmax_of_pieces",
                         .inputs = {"x", "found"},
                         .outputs = {"y"},
                         .source = R"(
const long i = thread_position_in_grid.x;
const int last = x_ndim - 1;
const long step = x_strides[last];
auto row = x + elem_to_loc(i, x_shape, x_strides, last);
uint at = found[i];
C best = load<C, HALF>(row[long(at) * step]);
for (long piece = 1; piece < pieces; ++piece) {
  const uint next = found[piece * long(threads_per_grid.x) + i];
  const C v = load<C, HALF>(row[long(next) * step]);
  if (better(v, best)) {
    best = v;
    at = next;
  }
}
y[i] = at;
)",
                         .header = std::string(array::kLoadText) + kHeader});
  return kernel;
}

// Below this many rows they are cut into pieces, of at least that many elements.
constexpr int64_t kFewRows = 32;
constexpr int64_t kPieceElements = 8192;
constexpr int64_t kMaxPieces = 64;

class ArgmaxOperation final : public Operation {
 public:
  ArgmaxOperation(size_t axis, bool least) : axis_(axis), least_(least) {}
  std::string_view name() const noexcept override { return least_ ? "argmin" : "argmax"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    const int64_t rows = out.size();
    if (rows == 0) return;
    Operand in = encoder.input(0);
    if (in.layout().has_negative_strides()) in = encoder.contiguous(in);
    in = in.with_layout(array::with_axis_last(in.layout(), axis_));
    const int64_t length = in.shape().back();

    const Dtype compared = is_floating(in.dtype()) ? array::accumulator_of(in.dtype()) : in.dtype();
    const std::array constants{kernel::Constant{"C", compared},
                               kernel::Constant{"HALF", array::is_half(in)},
                               kernel::Constant{"LEAST", least_}};
    in = array::as_bits(in);
    // Neighbouring threads read neighbouring elements: of a row together, or of a row each.
    const bool weak = array::is_many_weak(encoder);
    if (weak && in.layout().strides.back() == 1) return weak_rows(encoder, in, constants);
    const bool together = weak && in.layout().strides.end()[-2] != 1;

    int64_t pieces = 1;
    if (rows < (weak ? array::kWeakGroups : kFewRows)) {
      pieces = std::clamp<int64_t>(length / kPieceElements, 1, kMaxPieces);
    }
    const int64_t piece_length = ceil_div(length, pieces);
    pieces = ceil_div(length, piece_length);
    const Operand to = pieces == 1 ? out : encoder.scratch({pieces, rows}, Dtype::uint32);

    const kernel::Size3 grid{array::grid_axis(rows, "argmax"), static_cast<uint32_t>(pieces), 1};
    const kernel::Param each{"piece_length", piece_length};
    if (together) {
      const auto groups = array::weak_groups(rows, array::kWeakLine, pieces, "argmax");
      encoder.launch(weak_apart_kernel(), {.inputs = {&in, 1},
                                           .outputs = {&to, 1},
                                           .grid = groups.grid,
                                           .threadgroup = groups.group,
                                           .constants = constants,
                                           .params = std::array{each, groups.count}});
    } else {
      encoder.launch(pieces_kernel(), {.inputs = {&in, 1},
                                       .outputs = {&to, 1},
                                       .grid = grid,
                                       .threadgroup = array::group_of(encoder, grid),
                                       .constants = constants,
                                       .params = {&each, 1}});
    }
    if (pieces == 1) return;
    encoder.launch(last_kernel(), {.inputs = std::array{in, to},
                                   .outputs = {&out, 1},
                                   .grid = {grid.x, 1, 1},
                                   .threadgroup = array::group_of(encoder, {grid.x, 1, 1}),
                                   .constants = constants,
                                   .params = std::array{kernel::Param{"pieces", pieces}}});
  }

 private:
  static void weak_rows(Encoder& encoder, const Operand& in,
                        std::span<const kernel::Constant> constants) {
    const Operand& out = encoder.output(0);
    const bool flat = in.shape().end()[-2] == out.size();
    const array::WeakRows rows(out.size(), in.shape().back(), in.dtype(), flat);
    const bool whole = rows.pieces == 1;
    const Operand to = whole ? out : encoder.scratch({rows.rows, rows.pieces}, Dtype::uint32);
    const auto groups = rows.groups("argmax");
    std::vector<kernel::Constant> all(constants.begin(), constants.end());
    rows.add_constants(all);
    encoder.launch(weak_rows_kernel(rows.is_short),
                   {.inputs = {&in, 1},
                    .outputs = {&to, 1},
                    .grid = groups.grid,
                    .threadgroup = groups.group,
                    .constants = all,
                    .params = rows.params(in.layout().strides.end()[-2], groups)});
    if (whole) return;
    const auto last = array::weak_groups(rows.rows, array::kWeakLine, 1, "argmax");
    encoder.launch(weak_last_kernel(),
                   {.inputs = std::array{in, to},
                    .outputs = {&out, 1},
                    .grid = last.grid,
                    .threadgroup = last.group,
                    .constants = constants,
                    .params = std::array{kernel::Param{"pieces", rows.pieces}, last.count}});
  }

  size_t axis_;
  bool least_;
};

Array position_of_best(const Array& a, std::optional<int64_t> axis, bool keep_dims, bool least,
                       const On& on) {
  const char* const what = least ? "argmin" : "argmax";
  const Array of = axis ? a : reshape(a, {a.size()}, on);
  const size_t at = array::normal_axis(axis.value_or(0), of.ndim(), what);
  if (of.shape()[at] == 0) {
    throw UsageError(
        fmt::format("{}: an array of shape {} has nothing to choose from{}; leave empty arrays out",
                    what, to_string(a.shape()), axis ? fmt::format(" along axis {}", *axis) : ""));
  }
  Shape shape;
  for (size_t i = 0; i < a.ndim(); ++i) {
    const bool away = !axis || i == at;
    if (!away) {
      shape.push_back(a.shape()[i]);
    } else if (keep_dims) {
      shape.push_back(1);
    }
  }
  return apply(make_ref<const ArgmaxOperation>(at, least), {&of, 1}, {shape, Dtype::uint32}, on);
}

}  // namespace

Array argmax(const Array& a, std::optional<int64_t> axis, bool keep_dims, const On& on) {
  return position_of_best(a, axis, keep_dims, /*least=*/false, on);
}
Array argmin(const Array& a, std::optional<int64_t> axis, bool keep_dims, const On& on) {
  return position_of_best(a, axis, keep_dims, /*least=*/true, on);
}

}  // namespace holdfast
