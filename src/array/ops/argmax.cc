#include <fmt/format.h>

#include <array>
#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

constexpr const char* kHeader = R"(
constexpr int LANES = 32;
// Whether a later element replaces what was best so far.
inline bool better(C v, C best) { return v > best || (v != v && best == best); }
)";

// x has the axis last. A thread looks at a piece of it; results lie [piece, kept].
const Kernel& pieces_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "argmax",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = R"(
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

// The same for many weak threads: a threadgroup looks at a piece.
const Kernel& weak_pieces_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "argmax_weak",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = std::string(array::kGroupNumberText) + R"(
threadgroup C bests[8];
threadgroup uint places[8];
const uint t = thread_index_in_threadgroup;
const int last = x_ndim - 1;
const long step = x_strides[last];
const long begin = piece * piece_length;
const long end = metal::min(begin + piece_length, long(x_shape[last]));
auto row = x + elem_to_loc(number, x_shape, x_strides, last);
C best = load<C, HALF>(row[begin * step]);
uint found = uint(begin);
for (long k = begin + t; k < end; k += threads_per_threadgroup.x) {
  const C v = load<C, HALF>(row[k * step]);
  if (better(v, best)) {
    best = v;
    found = uint(k);
  }
}
for (uint distance = 16; distance > 0; distance /= 2) {
  const C v = simd_shuffle_xor(best, distance);
  const uint at = simd_shuffle_xor(found, distance);
  replace(best, found, v, at);
}
if (t % 32 == 0) {
  bests[t / 32] = best;
  places[t / 32] = found;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (t == 0) {
  for (int i = 1; i < 8; ++i) replace(best, found, bests[i], places[i]);
  y[piece * group_count + number] = found;
}
)",
                         .header = std::string(array::kLoadText) + kHeader + R"(
// The first of the better ones.
inline void replace(thread C& best, thread uint& found, C v, uint at) {
  if (better(v, best) || (!better(best, v) && at < found)) {
    best = v;
    found = at;
  }
}
)"});
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
  explicit ArgmaxOperation(size_t axis) : axis_(axis) {}
  std::string_view name() const noexcept override { return "argmax"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    const int64_t rows = out.size();
    if (rows == 0) return;
    Operand in = encoder.input(0);
    if (in.layout().has_negative_strides()) in = encoder.contiguous(in);
    in = in.with_layout(array::with_axis_last(in.layout(), axis_));
    const int64_t length = in.shape().back();

    // Neighbouring threads read neighbouring elements: of a row together, or of a row each.
    const bool together = array::is_many_weak(encoder) &&
                          (in.layout().strides.back() == 1 || in.layout().strides.end()[-2] != 1);

    int64_t pieces = 1;
    if (rows < (array::is_many_weak(encoder) ? array::kWeakGroups : kFewRows)) {
      pieces = std::clamp<int64_t>(length / kPieceElements, 1, kMaxPieces);
    }
    const int64_t piece_length = ceil_div(length, pieces);
    pieces = ceil_div(length, piece_length);
    const Operand to = pieces == 1 ? out : encoder.scratch({pieces, rows}, Dtype::uint32);

    const Dtype compared = is_floating(in.dtype()) ? array::accumulator_of(in.dtype()) : in.dtype();
    const std::array constants{kernel::Constant{"C", compared},
                               kernel::Constant{"HALF", array::is_half(in)}};
    in = array::as_bits(in);
    const kernel::Size3 grid{array::grid_axis(rows, "argmax"), static_cast<uint32_t>(pieces), 1};
    const kernel::Param each{"piece_length", piece_length};
    if (together) {
      const auto groups = array::weak_groups(rows, array::kWeakLine, pieces, "argmax");
      encoder.launch(weak_pieces_kernel(), {.inputs = {&in, 1},
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
  size_t axis_;
};

}  // namespace

Array argmax(const Array& a, std::optional<int64_t> axis, bool keep_dims, const On& on) {
  const Array of = axis ? a : reshape(a, {a.size()}, on);
  const size_t at = array::normal_axis(axis.value_or(0), of.ndim(), "argmax");
  if (of.shape()[at] == 0) {
    throw UsageError(fmt::format(
        "argmax: an array of shape {} has nothing to choose from{}; leave empty arrays out",
        to_string(a.shape()), axis ? fmt::format(" along axis {}", *axis) : ""));
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
  return apply(make_ref<const ArgmaxOperation>(at), {&of, 1}, {shape, Dtype::uint32}, on);
}

}  // namespace holdfast
