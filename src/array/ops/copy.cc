// Copies and fills of any layout.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "holdfast/array/apply.h"
#include "holdfast/array/layouts.h"
#include "holdfast/array/ops/copy_kernels.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/array/scalars.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/operation.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

// Elements are moved, not computed with: one variant for each size.
Dtype word_of(Dtype dtype) {
  switch (size_of(dtype).value) {
    case 1: return Dtype::uint8;
    case 2: return Dtype::uint16;
    case 4: return Dtype::uint32;
    default: return Dtype::uint64;
  }
}

// The last axis by all others.
kernel::Size3 grid_of(const Shape& shape) {
  const int64_t inner = shape.back();
  const int64_t rows = inner == 0 ? 0 : elements(shape) / inner;
  if (rows > UINT32_MAX) {
    throw UsageError(fmt::format("a copy of shape {} has more than 2^32 rows", to_string(shape)));
  }
  return {static_cast<uint32_t>(inner), static_cast<uint32_t>(rows), 1};
}

kernel::Size3 copy_group(const Encoder& encoder, const kernel::Size3& grid) {
  if (array::is_many_weak(encoder)) return array::group_of(encoder, grid);
  return {256, 1, 1};
}

// The same elements, from the lowest one upwards; returns which axes were turned round.
uint32_t turn_upwards(Layout& layout) {
  uint32_t turned = 0;
  for (size_t d = 0; d < layout.shape.size(); ++d) {
    if (layout.strides[d] >= 0) continue;
    layout.offset += layout.strides[d] * (layout.shape[d] - 1);
    layout.strides[d] = -layout.strides[d];
    turned |= 1U << d;
  }
  return turned;
}

// A copy of two layouts that were collapsed together and have no negative strides.
struct ElementCopy {
  Operand from;
  Operand to;
  uint32_t flip;

  size_t last() const { return to.shape().size() - 1; }
  bool flips(size_t axis) const { return (flip >> axis & 1U) != 0; }
};

void launch_each(Encoder& encoder, const ElementCopy& copy) {
  const kernel::Size3 grid = grid_of(copy.to.shape());
  encoder.launch(array::copy_kernel(), {.inputs = {&copy.from, 1},
                                        .outputs = {&copy.to, 1},
                                        .grid = grid,
                                        .threadgroup = copy_group(encoder, grid),
                                        .params = std::array{kernel::Param{"flip", copy.flip}}});
}

// Rows of elements that lie side by side on both sides; of lengths that leave 32 bits some room.
bool is_of_rows(const ElementCopy& copy) {
  return copy.to.shape().back() <= std::numeric_limits<int32_t>::max() &&
         copy.from.layout().strides.back() == 1 && copy.to.layout().strides.back() == 1 &&
         !copy.flips(copy.last());
}
void launch_rows(Encoder& encoder, const ElementCopy& copy) {
  constexpr uint32_t kMostAlongY = 32768;
  constexpr uint32_t kRowGroup = 128;  // bench row operation/slice_odd
  const kernel::Size3 all = grid_of(copy.to.shape());
  const int64_t vector = array::kPackBytes / static_cast<int64_t>(size_of(copy.to.dtype()).value);
  const uint32_t along_y = std::min(all.y, kMostAlongY);
  const kernel::Size3 grid{static_cast<uint32_t>(ceil_div(int64_t{all.x}, vector)), along_y,
                           static_cast<uint32_t>(ceil_div(int64_t{all.y}, int64_t{along_y}))};
  kernel::Size3 group = array::group_of(encoder, grid);
  group.x = std::min(group.x, kRowGroup);
  encoder.launch(
      array::weak_copy_rows_kernel(),
      {.inputs = {&copy.from, 1},
       .outputs = {&copy.to, 1},
       .grid = grid,
       .threadgroup = group,
       .constants = std::array{kernel::Constant{"VECTOR", vector}},
       .params = std::array<kernel::Param, 4>{
           {{"flip", copy.flip}, {"count", all.x}, {"rows", all.y}, {"rows_y", along_y}}}});
}

// The same with the axis last but one that is side by side in `from`, if that is another than in
// `to`, and long enough for squares of both.
std::optional<ElementCopy> turned(const ElementCopy& copy) {
  constexpr int64_t kFew = 8;
  const size_t last = copy.last();
  const Layout& from = copy.from.layout();
  const Layout& to = copy.to.layout();
  const auto found = std::ranges::find(from.strides, 1);
  const auto axis = static_cast<size_t>(found - from.strides.begin());
  if (to.strides.back() != 1 || axis >= last || copy.flips(last) || copy.flips(axis) ||
      to.shape[last] < kFew || to.shape[axis] < kFew) {
    return std::nullopt;
  }
  Layout x = from;
  Layout y = to;
  uint32_t flip = copy.flip & ((1U << axis) - 1);
  for (size_t d = axis + 1; d < last; ++d) {
    for (Layout* layout : {&x, &y}) {
      std::swap(layout->shape[d - 1], layout->shape[d]);
      std::swap(layout->strides[d - 1], layout->strides[d]);
    }
    if (copy.flips(d)) flip |= 1U << (d - 1);
  }
  return ElementCopy{copy.from.with_layout(x), copy.to.with_layout(y), flip};
}
void launch_turned(Encoder& encoder, const ElementCopy& copy) {
  const uint64_t bytes = size_of(copy.to.dtype()).value;
  const int64_t wide = bytes == 1 ? 4 : bytes == 8 ? 1 : 2;
  const Shape& shape = copy.to.shape();
  const int64_t side = array::kWeakWidth * wide;
  const int64_t rows = shape[copy.last() - 1];
  const int64_t columns = shape[copy.last()];
  const auto groups = array::weak_groups(
      elements(shape) / rows / columns * ceil_div(rows, side) * ceil_div(columns, side),
      array::kWeakTile, 1, "copy");
  encoder.launch(
      array::weak_copy_turned_kernel(),
      {.inputs = {&copy.from, 1},
       .outputs = {&copy.to, 1},
       .grid = groups.grid,
       .threadgroup = groups.group,
       .constants = std::array<kernel::Constant, 2>{{{"T", copy.to.dtype()}, {"WIDE", wide}}},
       .params = std::array{kernel::Param{"flip", copy.flip}, groups.count}});
}

void launch_squares(Encoder& encoder, const ElementCopy& copy) {
  const int64_t side = array::square_side(copy.to.dtype());
  const Shape& shape = copy.to.shape();
  const int64_t rows = shape[copy.last() - 1];
  const int64_t columns = shape[copy.last()];
  const kernel::Size3 grid{array::grid_axis(ceil_div(columns, side), "copy"),
                           array::grid_axis(ceil_div(rows, side), "copy"),
                           array::grid_axis(elements(shape) / rows / columns, "copy")};
  encoder.launch(
      array::square_copy_kernel(),
      {.inputs = {&copy.from, 1},
       .outputs = {&copy.to, 1},
       .grid = grid,
       .threadgroup = {1, 1, 1},
       .constants = std::array<kernel::Constant, 2>{{{"T", copy.to.dtype()}, {"SIDE", side}}},
       .params = std::array{kernel::Param{"flip", copy.flip}},
       .work_per_thread = static_cast<uint32_t>(side * side)});
}

}  // namespace

void Encoder::copy_elements(const Operand& from, const Operand& to) {
  if (from.dtype() != to.dtype() || from.shape() != to.shape()) {
    throw UsageError(
        fmt::format("copy_elements from {} {} to {} {}: both must have one dtype and shape",
                    kernel::to_string(from.dtype()), to_string(from.shape()),
                    kernel::to_string(to.dtype()), to_string(to.shape())));
  }
  if (to.size() == 0) return;
  if (from.is_row_contiguous() && to.is_row_contiguous()) return copy(from, to);
  std::array layouts{from.layout(), to.layout()};
  array::collapse(layouts);
  const uint32_t flip = turn_upwards(layouts[0]) ^ turn_upwards(layouts[1]);
  const Dtype word = word_of(from.dtype());
  const ElementCopy copy{from.viewed_as(word).with_layout(layouts[0]),
                         to.viewed_as(word).with_layout(layouts[1]), flip};
  const bool weak = array::is_many_weak(*this);
  if (weak && is_of_rows(copy)) return launch_rows(*this, copy);
  if (weak || array::is_cpu(*this)) {
    if (const auto squares = turned(copy)) {
      return weak ? launch_turned(*this, *squares) : launch_squares(*this, *squares);
    }
  }
  launch_each(*this, copy);
}

void Encoder::fill_elements(const Operand& to, const kernel::Scalar& value) {
  const kernel::Scalar converted = array::converted(value, to.dtype());
  if (to.size() == 0) return;
  const uint64_t bytes = size_of(to.dtype()).value;
  const uint64_t first = converted.bits & 0xff;
  bool uniform = true;
  for (uint64_t i = 1; i < bytes; ++i) uniform &= ((converted.bits >> (8 * i)) & 0xff) == first;
  if (uniform && to.is_row_contiguous()) return fill(to, static_cast<std::byte>(first));
  std::array layouts{to.layout()};
  array::collapse(layouts);
  (void)turn_upwards(layouts[0]);
  kernel::Scalar word;
  word.dtype = word_of(to.dtype());
  word.bits = converted.bits;
  const std::array outputs{to.viewed_as(word.dtype).with_layout(layouts[0])};
  const std::array params{kernel::Param{"value", word}};
  const kernel::Size3 grid = grid_of(layouts[0].shape);
  launch(
      array::fill_kernel(),
      {.outputs = outputs, .grid = grid, .threadgroup = copy_group(*this, grid), .params = params});
}

namespace {

class Copy final : public Operation {
 public:
  std::string_view name() const noexcept override { return "copy"; }
  std::vector<Shape> output_shapes(std::span<const Shape> inputs,
                                   std::span<const Shape> /*before*/) const override {
    return {inputs[0]};
  }
  void record(Encoder& encoder) const override {
    encoder.copy_elements(encoder.input(0), encoder.output(0));
  }
};

// Inputs: the array, the update, of the slice's shape and the array's dtype.
class SliceUpdate final : public Operation {
 public:
  explicit SliceUpdate(const Layout& slice) : slice_(slice) {}
  std::string_view name() const noexcept override { return "slice_update"; }
  bool takes_inputs() const noexcept override { return true; }
  void record(Encoder& encoder) const override {
    const Operand& all = encoder.take(0, 0);
    encoder.copy_elements(encoder.input(1), all.with_layout(slice_));
  }

 private:
  Layout slice_;  // in the row-contiguous result
};

}  // namespace

Array copy(const Array& array, const On& on) {
  static const NeverDestroyed<Ref<const Operation>> operation(make_ref<const Copy>());
  return apply(operation, {&array, 1}, {array.shape(), array.dtype()}, on);
}

Array contiguous(const Array& array, const On& on) {
  return array.is_row_contiguous() ? array : copy(array, on);
}

Array slice_update(Array array, const Array& update, std::span<const Slice> slices, const On& on) {
  const Layout slice = array::slice(Layout::row_contiguous(array.shape()), slices);
  const Array fitted = broadcast_to(astype(update, array.dtype(), on), slice.shape);
  const OutputType type{array.shape(), array.dtype()};
  array::NodeInputs inputs;
  inputs.push_back(std::move(array));
  inputs.push_back(fitted);
  return array::apply(make_ref<const SliceUpdate>(slice), std::move(inputs), type, on);
}

Array slice_update(Array array, const Array& update, std::initializer_list<Slice> slices,
                   const On& on) {
  return slice_update(std::move(array), update, std::span(slices.begin(), slices.size()), on);
}

}  // namespace holdfast
