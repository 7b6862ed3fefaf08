#include <fmt/format.h>

#include <array>
#include <limits>

#include "holdfast/array/ops/positions.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/array/scalars.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

// x is [outer, n, inner]. The result y is [outer, positions, inner]; each position is the same for
// all of outer and inner, or (ALONG) there is one for each element. The fast axis of the grid is
// inner, or (SINGLE, where that has one element) the positions. DENSE: the elements of inner lie
// side by side.
const Kernel& take_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "take",
                                                                .inputs = {"x", "indices"},
                                                                .outputs = {"y"},
                                                                .source = std::string(R"(
#if SINGLE
const long position = thread_position_in_grid.x;
const long inner = 0;
const long positions = threads_per_grid.x;
const long inners = 1;
#else
const long position = thread_position_in_grid.y;
const long inner = thread_position_in_grid.x;
const long positions = threads_per_grid.y;
const long inners = threads_per_grid.x;
#endif
const long outer = thread_position_in_grid.z;
const long to = (outer * positions + position) * inners + inner;
const long n = x_shape[1];
#if ALONG
const I given = indices[to];
#else
const I given = indices[position];
#endif
)") + array::kPositionText +
                                                                          R"(
#if DENSE
const long step = 1;
#else
const long step = x_strides[2];
#endif
y[to] = inside ? x[outer * x_strides[0] + at * x_strides[1] + inner * step] : T(missing);
)"});
  return kernel;
}

// Many weak threads: the same for rows of inner that lie side by side; see PackedRows.
const Kernel& weak_take_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "take_rows_weak",
                         .inputs = {"x", "indices"},
                         .outputs = {"y"},
                         .source = std::string(R"(
const uint row = thread_position_in_grid.z * rows_y + thread_position_in_grid.y;
if (row < rows) {
  const uint outer = row / positions;
  const I given = indices[row - outer * positions];
  const long n = x_shape[1];
)") + array::kPositionText + R"(
  auto to = y + long(row) * inner;
  if (inside) {
    move_row(x + (long(outer) * x_strides[0] + at * x_strides[1]), to, inner,
             thread_position_in_grid.x, threads_per_grid.x);
  } else {
    for (uint k = thread_position_in_grid.x; k < inner; k += threads_per_grid.x) {
      to[k] = T(missing);
    }
  }
}
)",
                         .header = std::string(array::kPackText) + array::kMoveText});
  return kernel;
}

// [outer, axis, inner]; none where the axes around it do not lie as one each.
std::optional<Layout> in_three(const Layout& layout, size_t axis) {
  Layout outer{.offset = layout.offset};
  Layout inner{};
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    if (i == axis) continue;
    Layout& side = i < axis ? outer : inner;
    side.shape.push_back(layout.shape[i]);
    side.strides.push_back(layout.strides[i]);
  }
  array::collapse({&outer, 1});
  array::collapse({&inner, 1});
  if (outer.shape.size() > 1 || inner.shape.size() > 1) return std::nullopt;
  return Layout{{outer.shape[0], layout.shape[axis], inner.shape[0]},
                {outer.strides[0], layout.strides[axis], inner.strides[0]},
                layout.offset};
}

class Take final : public Operation {
 public:
  Take(size_t axis, bool along) : axis_(axis), along_(along) {}
  std::string_view name() const noexcept override { return along_ ? "take_along_axis" : "take"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    Operand x = encoder.input(0);
    const double missing = is_floating(x.dtype()) ? std::numeric_limits<double>::quiet_NaN() : 0;
    if (x.size() == 0) {
      encoder.fill_elements(out, array::scalar_of(missing, out.dtype()));
      return;
    }
    const Operand indices = array::with_dimension(encoder.contiguous(encoder.input(1)));
    std::optional<Layout> layout;
    if (!x.layout().has_negative_strides()) layout = in_three(x.layout(), axis_);
    if (!layout) {
      x = encoder.contiguous(x);
      layout = in_three(x.layout(), axis_);  // there is one: see check_sides
    }
    x = x.with_layout(*layout);
    const int64_t outer = x.shape()[0];
    const int64_t inner = x.shape()[2];
    const int64_t positions = out.size() / outer / inner;
    const kernel::Param instead{"missing", kernel::Scalar(static_cast<float>(missing))};
    const bool single = inner == 1;
    if (array::is_many_weak(encoder) && !along_ && !single && x.layout().strides[2] == 1 &&
        array::PackedRows::fit(outer * positions, inner)) {
      return take_rows(encoder, x, indices, out, instead);
    }
    const char* const what = along_ ? "take_along_axis" : "take";
    const kernel::Size3 grid{array::grid_axis(single ? positions : inner, what),
                             single ? 1 : array::grid_axis(positions, what),
                             array::grid_axis(outer, what)};
    encoder.launch(
        take_kernel(),
        {.inputs = std::array{x, indices},
         .outputs = {&out, 1},
         .grid = grid,
         .threadgroup = array::group_of(encoder, grid),
         .constants =
             std::array<kernel::Constant, 5>{{{"T", x.dtype()},
                                              {"I", indices.dtype()},
                                              {"SINGLE", single},
                                              {"DENSE", x.layout().strides[2] == 1 && !single},
                                              {"ALONG", along_}}},
         .params = {&instead, 1}});
  }

 private:
  static void take_rows(Encoder& encoder, const Operand& x, const Operand& indices,
                        const Operand& out, const kernel::Param& missing) {
    const int64_t inner = x.shape()[2];
    const int64_t rows = out.size() / inner;
    const auto step = [&](size_t axis) {
      return x.shape()[axis] == 1 ? 0 : x.layout().strides[axis];
    };
    const array::PackedRows packed(rows, inner, step(0) | step(1),
                                   static_cast<int64_t>(size_of(x.dtype()).value), 4);
    encoder.launch(weak_take_rows_kernel(),
                   {.inputs = std::array{x, indices},
                    .outputs = {&out, 1},
                    .grid = packed.grid,
                    .threadgroup = array::group_of(encoder, packed.grid),
                    .constants = std::array<kernel::Constant, 4>{{{"T", x.dtype()},
                                                                  {"I", indices.dtype()},
                                                                  {"VECTOR", packed.vector},
                                                                  {"PACKS", packed.packs}}},
                    .params = std::array<kernel::Param, 5>{
                        {missing,
                         {"positions", static_cast<uint32_t>(rows / x.shape()[0])},
                         {"inner", static_cast<uint32_t>(inner)},
                         {"rows", static_cast<uint32_t>(rows)},
                         {"rows_y", packed.rows_y}}}});
  }

  size_t axis_;
  bool along_;
};

// A grid has one axis for each side of the axis that positions choose from.
void check_sides(const Shape& shape, size_t axis, const char* what) {
  if (elements(shape) == 0 || in_three(Layout::row_contiguous(shape), axis)) return;
  throw UsageError(fmt::format(
      "{}: the axes on one side of axis {} of shape {} have more than 2^31 - 1 elements; take from "
      "parts of it",
      what, axis, to_string(shape)));
}

}  // namespace

Array take(const Array& a, const Array& indices, std::optional<int64_t> axis, const On& on) {
  array::check_positions(indices, "take");
  const Array of = axis ? a : reshape(a, {a.size()}, on);
  const size_t at = array::normal_axis(axis.value_or(0), of.ndim(), "take");
  check_sides(of.shape(), at, "take");
  const Shape shape = array::shape_at_positions(of.shape(), at, indices.shape());
  return apply(make_ref<const Take>(at, false), std::array{of, indices}, {shape, a.dtype()}, on);
}

Array take_along_axis(const Array& a, const Array& indices, int64_t axis, const On& on) {
  array::check_positions(indices, "take_along_axis");
  const size_t at = array::normal_axis(axis, a.ndim(), "take_along_axis");
  array::check_along(a.shape(), indices.shape(), at, "take_along_axis");
  check_sides(a.shape(), at, "take_along_axis");
  return apply(make_ref<const Take>(at, true), std::array{a, indices}, {indices.shape(), a.dtype()},
               on);
}

}  // namespace holdfast
