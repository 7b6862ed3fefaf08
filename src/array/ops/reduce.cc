#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "holdfast/array/ops/work.h"
#include "holdfast/array/scalars.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

enum class Kind : uint8_t { sum, mean, max, min };
const char* name_of(Kind kind) {
  constexpr std::array kNames{"sum", "mean", "max", "min"};
  return kNames.at(static_cast<size_t>(kind));
}
bool is_extreme(Kind kind) { return kind == Kind::max || kind == Kind::min; }

// What is computed in. Integers wrap around, which C++ has for unsigned ones alone.
Dtype accumulator(Kind kind, Dtype dtype) {
  if (is_floating(dtype)) return array::accumulator_of(dtype);
  if (is_extreme(kind)) return dtype;
  const bool wide = size_of(dtype) == Bytes(8);
  if (kind == Kind::mean) return wide ? Dtype::float64 : Dtype::int64;
  return wide ? Dtype::uint64 : Dtype::uint32;
}

Dtype result_type(Kind kind, Dtype dtype) {
  if (is_extreme(kind)) return dtype;
  if (kind == Kind::mean) return floating(dtype);
  if (is_floating(dtype) || size_of(dtype) >= Bytes(4)) return dtype;
  return is_unsigned_integer(dtype) ? Dtype::uint32 : Dtype::int32;
}

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
constexpr int64_t kReduceLanes = 32;

const Kernel& reduce_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "reduce_rows",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = kReduceRows,
                         .header = std::string(array::kLoadText) + kReduceHeader});
  return kernel;
}
const Kernel& reduce_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "reduce_columns",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = kReduceColumns,
                         .header = std::string(array::kLoadText) + kReduceHeader});
  return kernel;
}

// Below this many threads a reduction is cut into pieces, each of at least that many elements.
constexpr int64_t kFewThreads = 32;
constexpr int64_t kReducePieceElements = 8192;
constexpr int64_t kMaxReducePieces = 64;

// An array as what stays of it and what does not.
struct Split {
  Layout kept;
  Layout reduced;

  Split(const Layout& layout, const Dims& axes) {
    kept.offset = layout.offset;
    struct Axis {
      int64_t length;
      int64_t stride;
    };
    std::vector<Axis> away;
    for (size_t i = 0; i < layout.shape.size(); ++i) {
      if (std::ranges::find(axes, static_cast<int64_t>(i)) == axes.end()) {
        kept.shape.push_back(layout.shape[i]);
        kept.strides.push_back(layout.strides[i]);
        continue;
      }
      // The order does not matter: backwards is as good as forwards.
      if (layout.strides[i] < 0) kept.offset += (layout.shape[i] - 1) * layout.strides[i];
      if (layout.shape[i] > 1) away.push_back({layout.shape[i], std::abs(layout.strides[i])});
    }
    // Nor does that of the axes: elements that lie side by side go last.
    std::ranges::stable_sort(away, [](const Axis& a, const Axis& b) {
      return a.stride == 0 ? b.stride != 0 : b.stride != 0 && a.stride > b.stride;
    });
    for (const Axis& axis : away) {
      reduced.shape.push_back(axis.length);
      reduced.strides.push_back(axis.stride);
    }
    array::collapse({&kept, 1});
    array::collapse({&reduced, 1});
  }

  Layout joined() const {
    Layout all = kept;
    for (size_t i = 0; i < reduced.shape.size(); ++i) {
      all.shape.push_back(reduced.shape[i]);
      all.strides.push_back(reduced.strides[i]);
    }
    return array::with_usual_rank(all);
  }
  bool launchable() const noexcept {
    return !kept.has_negative_strides() &&
           kept.shape.size() + reduced.shape.size() <= Dims::kMaxDims;
  }
};

struct Step {
  Kind kind;
  Dtype accumulator;
  int64_t divisor;  // of the sum
};

void launch(Encoder& encoder, const Operand& in, const Split& split, const Operand& out,
            const Step& step) {
  const int64_t outputs = elements(split.kept.shape);
  const int64_t inner = split.reduced.shape.back();
  const int64_t outer = elements(split.reduced.shape) / inner;
  const bool columns = split.kept.strides.back() == 1 && split.reduced.strides.back() != 1 &&
                       split.kept.shape.back() >= kReduceLanes / 2;
  const int64_t wide = columns ? ceil_div(split.kept.shape.back(), kReduceLanes) : outputs;
  const int64_t high = columns ? outputs / split.kept.shape.back() : 1;

  // As many pieces as are worth it, of the inner axis first.
  int64_t pieces = 1;
  if (wide * high < kFewThreads) {
    const int64_t each = columns ? std::min(outputs, kReduceLanes) : 1;
    pieces = std::clamp<int64_t>(outer * inner * each / kReducePieceElements, 1, kMaxReducePieces);
  }
  const int64_t inner_length = ceil_div(inner, std::min(pieces, inner));
  const int64_t inner_pieces = ceil_div(inner, inner_length);
  const int64_t outer_length =
      ceil_div(outer, std::clamp<int64_t>(pieces / inner_pieces, 1, outer));
  pieces = inner_pieces * ceil_div(outer, outer_length);

  const bool whole = pieces == 1;
  const Operand to = whole ? out : encoder.scratch({pieces, outputs}, step.accumulator);
  // Those of the kernels.
  const int64_t op = step.kind == Kind::max ? 1 : step.kind == Kind::min ? 2 : 0;
  const kernel::Size3 grid{array::grid_axis(wide, name_of(step.kind)),
                           array::grid_axis(high, name_of(step.kind)),
                           static_cast<uint32_t>(pieces)};
  const std::array inputs{array::as_bits(in).with_layout(split.joined())};
  const size_t kept = inputs[0].shape().size() - split.reduced.shape.size();
  encoder.launch(columns ? reduce_columns_kernel() : reduce_rows_kernel(),
                 {.inputs = inputs,
                  .outputs = {&to, 1},
                  .grid = grid,
                  .threadgroup = array::group_of(grid),
                  .constants = std::array<kernel::Constant, 4>{{{"A", step.accumulator},
                                                                {"R", to.dtype()},
                                                                {"OP", op},
                                                                {"HALF", array::is_half(in)}}},
                  .params = std::array<kernel::Param, 6>{{{"kept", static_cast<int32_t>(kept)},
                                                          {"outer_count", outer},
                                                          {"outer_length", outer_length},
                                                          {"inner_pieces", inner_pieces},
                                                          {"inner_length", inner_length},
                                                          {"divisor", whole ? step.divisor : 1}}},
                  .work_per_thread = array::share_of(static_cast<double>(in.size()), grid)});
  if (!whole) launch(encoder, to, Split(to.layout(), {0}), out, step);
}

class ReduceOperation final : public Operation {
 public:
  ReduceOperation(Kind kind, const Dims& axes) : kind_(kind), axes_(axes) {}
  std::string_view name() const noexcept override { return name_of(kind_); }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    Operand in = encoder.input(0);
    if (out.size() == 0) return;
    if (in.size() == 0) {
      const double none = kind_ == Kind::mean ? std::numeric_limits<double>::quiet_NaN() : 0;
      encoder.fill_elements(out, array::scalar_of(none, out.dtype()));
      return;
    }
    if (!Split(in.layout(), axes_).launchable()) in = encoder.contiguous(in);
    launch(
        encoder, in, Split(in.layout(), axes_), out,
        {kind_, accumulator(kind_, in.dtype()), kind_ == Kind::mean ? in.size() / out.size() : 1});
  }

 private:
  Kind kind_;
  Dims axes_;
};

Array reduce(Kind kind, const Array& a, const Reduce& how, const On& on) {
  const Dims axes = array::normal_axes(how.axes, a.ndim(), name_of(kind));
  Shape shape;
  for (size_t i = 0; i < a.ndim(); ++i) {
    const bool away = std::ranges::find(axes, static_cast<int64_t>(i)) != axes.end();
    if (away && is_extreme(kind) && a.shape()[i] == 0) {
      throw UsageError(fmt::format(
          "{}: axis {} of shape {} has no elements, and nothing is the {} of none; reduce over "
          "other axes, or leave empty arrays out",
          name_of(kind), i, to_string(a.shape()), kind == Kind::max ? "largest" : "smallest"));
    }
    if (!away) {
      shape.push_back(a.shape()[i]);
    } else if (how.keep_dims) {
      shape.push_back(1);
    }
  }
  return apply(make_ref<const ReduceOperation>(kind, axes), {&a, 1},
               {shape, result_type(kind, a.dtype())}, on);
}

}  // namespace

Array sum(const Array& a, const Reduce& how, const On& on) { return reduce(Kind::sum, a, how, on); }
Array mean(const Array& a, const Reduce& how, const On& on) {
  return reduce(Kind::mean, a, how, on);
}
Array max(const Array& a, const Reduce& how, const On& on) { return reduce(Kind::max, a, how, on); }
Array min(const Array& a, const Reduce& how, const On& on) { return reduce(Kind::min, a, how, on); }

}  // namespace holdfast
