#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "holdfast/array/ops/fusible.h"
#include "holdfast/array/ops/reduce_kernels.h"
#include "holdfast/array/ops/rows.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/array/scalars.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

enum class Kind : uint8_t { sum, prod, mean, all, any, max, min };
const char* name_of(Kind kind) {
  constexpr std::array kNames{"sum", "prod", "mean", "all", "any", "max", "min"};
  return kNames.at(static_cast<size_t>(kind));
}
bool is_extreme(Kind kind) { return kind == Kind::max || kind == Kind::min; }
// Of elements as bool, all is the smallest and any the largest.
bool is_truth(Kind kind) { return kind == Kind::all || kind == Kind::any; }

// What is computed in. Integers wrap around, which C++ has for unsigned ones alone.
Dtype accumulator(Kind kind, Dtype dtype) {
  if (is_truth(kind)) return Dtype::bool_;
  if (is_floating(dtype)) return array::accumulator_of(dtype);
  if (is_extreme(kind)) return dtype;
  const bool wide = size_of(dtype) == Bytes(8);
  if (kind == Kind::mean) return wide ? Dtype::float64 : Dtype::int64;
  return wide ? Dtype::uint64 : Dtype::uint32;
}

Dtype result_type(Kind kind, Dtype dtype) {
  if (is_truth(kind)) return Dtype::bool_;
  if (is_extreme(kind)) return dtype;
  if (kind == Kind::mean) return floating(dtype);
  if (is_floating(dtype) || size_of(dtype) >= Bytes(4)) return dtype;
  return is_unsigned_integer(dtype) ? Dtype::uint32 : Dtype::int32;
}

// Below this many threads a reduction is cut into pieces, each of at least that many elements.
constexpr int64_t kFewThreads = 32;
constexpr int64_t kReducePieceElements = 8192;
constexpr int64_t kMaxReducePieces = 64;
constexpr int64_t kReduceLanes = 32;
// A result of fewer elements is one thread's, weak or strong.
constexpr int64_t kFewReduced = 32;
// The same of columns for many weak threads.
constexpr int64_t kFewInColumn = 8;
// Elements of each thread of a piece of a weak body, at least: of each of its columns, or apart.
constexpr int64_t kWeakInColumn = 8;
constexpr int64_t kWeakApart = 16;
// Results side by side, at least, for the bodies of columns; and of a weak thread, at most.
constexpr int64_t kFewReduceColumns = 16;
constexpr int64_t kFewWeakReduceColumns = 2;
constexpr int64_t kWeakColumns = 8;

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

int64_t op_of(Kind kind) {
  switch (kind) {
    case Kind::max:
    case Kind::any: return 1;
    case Kind::min:
    case Kind::all: return 2;
    case Kind::prod: return 3;
    default: return 0;
  }
}

std::vector<kernel::Constant> reduce_constants(const Operand& in, const Operand& to,
                                               const Step& step) {
  return {{"A", step.accumulator},
          {"R", to.dtype()},
          {"OP", op_of(step.kind)},
          {"HALF", array::is_half(in)}};
}

// Whether results lie side by side, and their elements do.
bool has_columns(const Split& split, int64_t few) {
  return split.kept.strides.back() == 1 && split.reduced.strides.back() != 1 &&
         split.kept.shape.back() >= few;
}

void launch(Encoder& encoder, const Operand& in, const Split& split, const Operand& out,
            const Step& step);

// Rows of elements that lie side by side.
bool has_rows(const Split& split) {
  return split.reduced.shape.size() == 1 && split.reduced.strides[0] == 1;
}
void launch_weak_rows(Encoder& encoder, const Operand& in, const Split& split, const Operand& out,
                      const Step& step) {
  const bool flat = split.kept.shape.size() == 1;
  const array::WeakRows rows(elements(split.kept.shape), split.reduced.shape[0], in.dtype(), flat);
  const bool whole = rows.pieces == 1;
  const Operand to = whole ? out : encoder.scratch({rows.rows, rows.pieces}, step.accumulator);
  const std::array inputs{array::as_bits(in).with_layout(split.joined())};
  const auto launched = rows.groups(name_of(step.kind));
  std::vector<kernel::Constant> constants = reduce_constants(in, to, step);
  rows.add_constants(constants);
  std::vector<kernel::Param> params = rows.params(split.kept.strides.back(), launched);
  params.push_back({"divisor", whole ? step.divisor : 1});
  encoder.launch(
      array::weak_reduce_rows_kernel(rows.is_short),
      {.inputs = inputs,
       .outputs = {&to, 1},
       .grid = launched.grid,
       .threadgroup = launched.group,
       .constants = constants,
       .params = params,
       .work_per_thread = array::share_of(static_cast<double>(in.size()), launched.grid)});
  if (!whole) launch(encoder, to, Split(to.layout(), {1}), out, step);
}

// Rows of elements that lie side by side, several of them for each result: each on its own first.
bool has_several_rows(const Split& split) {
  return split.reduced.shape.size() > 1 && split.reduced.strides.back() == 1 &&
         split.reduced.shape.back() >= kFewReduced;
}
void launch_several_rows(Encoder& encoder, const Operand& in, const Split& split,
                         const Operand& out, const Step& step) {
  const Layout joined = split.joined();
  const Split inner(joined, {static_cast<int64_t>(joined.shape.size()) - 1});
  const int64_t outputs = elements(split.kept.shape);
  const Operand to =
      encoder.scratch({outputs, elements(inner.kept.shape) / outputs}, step.accumulator);
  launch_weak_rows(encoder, in, inner, to, {step.kind, step.accumulator, 1});
  launch(encoder, to, Split(to.layout(), {1}), out, step);
}

// Results and elements that lie side by side, or a threadgroup for each result.
void launch_weak(Encoder& encoder, const Operand& in, const Split& split, const Operand& out,
                 const Step& step) {
  const int64_t outputs = elements(split.kept.shape);
  const int64_t count = elements(split.reduced.shape);
  const bool columns = has_columns(split, kFewWeakReduceColumns);
  const int64_t across = split.kept.shape.back();
  const int64_t vector =
      std::min(array::kPackBytes / static_cast<int64_t>(size_of(in.dtype()).value), kWeakColumns);
  const auto wide = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::min(ceil_div(across, vector), array::kWeakWidth))));
  const int64_t groups = columns ? outputs / across * ceil_div(across, wide * vector) : outputs;
  const int64_t together = columns ? int64_t{array::kWeakGroup} / wide : int64_t{array::kWeakGroup};
  const int64_t wanted =
      std::max<int64_t>(std::min(ceil_div(array::WeakRows::kBusy, groups),
                                 count / (together * (columns ? kWeakInColumn : kWeakApart))),
                        1);
  const int64_t piece_length = std::min(ceil_div(count, wanted), int64_t{1} << 30);
  const int64_t pieces = ceil_div(count, piece_length);

  const bool whole = pieces == 1;
  const Operand to = whole ? out : encoder.scratch({pieces, outputs}, step.accumulator);
  const std::array inputs{array::as_bits(in).with_layout(split.joined())};
  const size_t kept = inputs[0].shape().size() - split.reduced.shape.size();
  const auto launched = array::weak_groups(groups, array::kWeakLine, pieces, name_of(step.kind));
  std::vector<kernel::Constant> constants = reduce_constants(in, to, step);
  if (columns) {
    constants.push_back({"VECTOR", vector});
    constants.push_back({"WIDE", wide});
    constants.push_back({"ONE", split.reduced.shape.size() == 1});
  }
  encoder.launch(
      columns ? array::weak_reduce_columns_kernel() : array::weak_reduce_apart_kernel(),
      {.inputs = inputs,
       .outputs = {&to, 1},
       .grid = launched.grid,
       .threadgroup = launched.group,
       .constants = constants,
       .params = std::array<kernel::Param, 5>{{{"kept", static_cast<int32_t>(kept)},
                                               {"count", count},
                                               {"piece_length", piece_length},
                                               {"divisor", whole ? step.divisor : 1},
                                               launched.count}},
       .work_per_thread = array::share_of(static_cast<double>(in.size()), launched.grid)});
  if (!whole) launch(encoder, to, Split(to.layout(), {0}), out, step);
}

void launch(Encoder& encoder, const Operand& in, const Split& split, const Operand& out,
            const Step& step) {
  const int64_t outputs = elements(split.kept.shape);
  const int64_t inner = split.reduced.shape.back();
  const int64_t outer = elements(split.reduced.shape) / inner;
  const bool weak = array::is_many_weak(encoder);
  if (weak) {
    if (has_rows(split)) return launch_weak_rows(encoder, in, split, out, step);
    if (has_several_rows(split)) return launch_several_rows(encoder, in, split, out, step);
    if (outer * inner >= (has_columns(split, kFewWeakReduceColumns) ? kFewInColumn : kFewReduced)) {
      return launch_weak(encoder, in, split, out, step);
    }
  }
  const bool columns = !weak && has_columns(split, kFewReduceColumns);
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
  const kernel::Size3 grid{array::grid_axis(wide, name_of(step.kind)),
                           array::grid_axis(high, name_of(step.kind)),
                           static_cast<uint32_t>(pieces)};
  const std::array inputs{array::as_bits(in).with_layout(split.joined())};
  const size_t kept = inputs[0].shape().size() - split.reduced.shape.size();
  encoder.launch(columns ? array::reduce_columns_kernel() : array::reduce_rows_kernel(),
                 {.inputs = inputs,
                  .outputs = {&to, 1},
                  .grid = grid,
                  .threadgroup = array::group_of(encoder, grid),
                  .constants = reduce_constants(in, to, step),
                  .params = std::array<kernel::Param, 6>{{{"kept", static_cast<int32_t>(kept)},
                                                          {"outer_count", outer},
                                                          {"outer_length", outer_length},
                                                          {"inner_pieces", inner_pieces},
                                                          {"inner_length", inner_length},
                                                          {"divisor", whole ? step.divisor : 1}}},
                  .work_per_thread = array::share_of(static_cast<double>(in.size()), grid)});
  if (!whole) launch(encoder, to, Split(to.layout(), {0}), out, step);
}

class ReduceOperation final : public array::RowOperation {
 public:
  ReduceOperation(Kind kind, const Dims& axes) : kind_(kind), axes_(axes) {}
  std::string_view name() const noexcept override { return name_of(kind_); }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    Operand in = encoder.input(0);
    if (out.size() == 0) return;
    if (in.size() == 0) {
      const double none = kind_ == Kind::mean ? std::numeric_limits<double>::quiet_NaN()
                          : kind_ == Kind::prod || kind_ == Kind::all ? 1
                                                                      : 0;
      encoder.fill_elements(out, array::scalar_of(none, out.dtype()));
      return;
    }
    if (!Split(in.layout(), axes_).launchable()) in = encoder.contiguous(in);
    launch(
        encoder, in, Split(in.layout(), axes_), out,
        {kind_, accumulator(kind_, in.dtype()), kind_ == Kind::mean ? in.size() / out.size() : 1});
  }
  std::optional<array::RowStep> row_step(const Shape& input, Dtype dtype,
                                         std::string& why) const override {
    using array::RowKind;
    const bool last_axis = axes_.size() == 1 && axes_[0] + 1 == static_cast<int64_t>(input.size());
    if (!last_axis) {
      why = "it reduces another axis than the last";
      return {};
    }
    if (!is_floating(dtype) || is_truth(kind_)) {
      why = "it is no reduction of floats";
      return {};
    }
    const Dtype computed = accumulator(kind_, dtype);
    switch (kind_) {
      case Kind::prod: return array::RowStep{RowKind::prod, computed};
      case Kind::max: return array::RowStep{RowKind::max, computed};
      case Kind::min: return array::RowStep{RowKind::min, computed};
      case Kind::mean: return array::RowStep{RowKind::sum, computed, input[input.size() - 1]};
      default: return array::RowStep{RowKind::sum, computed};
    }
  }

  std::vector<Shape> output_shapes(std::span<const Shape> inputs,
                                   std::span<const Shape> before) const override {
    const bool keeps_axes = before[0].size() == inputs[0].size();
    return {shape_of_reduced(inputs[0], keeps_axes)};
  }

  Shape shape_of_reduced(const Shape& of, bool keep_dims) const {
    Shape shape;
    for (size_t i = 0; i < of.size(); ++i) {
      const bool away = std::ranges::find(axes_, static_cast<int64_t>(i)) != axes_.end();
      if (away && is_extreme(kind_) && of[i] == 0) {
        throw UsageError(fmt::format(
            "{}: axis {} of shape {} has no elements, and nothing is the {} of none; reduce over "
            "other axes, or leave empty arrays out",
            name_of(kind_), i, to_string(of), kind_ == Kind::max ? "largest" : "smallest"));
      }
      if (!away) {
        shape.push_back(of[i]);
      } else if (keep_dims) {
        shape.push_back(1);
      }
    }
    return shape;
  }

 private:
  Kind kind_;
  Dims axes_;
};

Array reduce(Kind kind, const Array& a, const Reduce& how, const On& on) {
  const Dims axes = array::normal_axes(how.axes, a.ndim(), name_of(kind));
  const auto operation = make_ref<const ReduceOperation>(kind, axes);
  return apply(
      operation, {&a, 1},
      {operation->shape_of_reduced(a.shape(), how.keep_dims), result_type(kind, a.dtype())}, on);
}

}  // namespace

Array sum(const Array& a, const Reduce& how, const On& on) { return reduce(Kind::sum, a, how, on); }
Array prod(const Array& a, const Reduce& how, const On& on) {
  return reduce(Kind::prod, a, how, on);
}
Array mean(const Array& a, const Reduce& how, const On& on) {
  return reduce(Kind::mean, a, how, on);
}
Array all(const Array& a, const Reduce& how, const On& on) { return reduce(Kind::all, a, how, on); }
Array any(const Array& a, const Reduce& how, const On& on) { return reduce(Kind::any, a, how, on); }
Array max(const Array& a, const Reduce& how, const On& on) { return reduce(Kind::max, a, how, on); }
Array min(const Array& a, const Reduce& how, const On& on) { return reduce(Kind::min, a, how, on); }

}  // namespace holdfast
