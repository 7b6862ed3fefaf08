// Copies and fills of any layout.

#include <fmt/format.h>

#include <array>
#include <bit>

#include "holdfast/array/apply.h"
#include "holdfast/array/layouts.h"
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

// A row of the last axis for each y of the grid. `flip` has a bit for each axis that x walks
// backwards.
const Kernel& copy_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "copy_elements", .inputs = {"x"}, .outputs = {"y"}, .source = R"(
uint row = thread_position_in_grid.y;
long from = 0;
long to = 0;
for (int d = y_ndim - 2; d >= 0; --d) {
  uint n = uint(y_shape[d]);
  uint c = row % n;
  row /= n;
  to += long(c) * y_strides[d];
  from += long((flip >> d) & 1u ? n - 1u - c : c) * x_strides[d];
}
uint i = thread_position_in_grid.x;
uint n = uint(y_shape[y_ndim - 1]);
to += long(i) * y_strides[y_ndim - 1];
from += long((flip >> (y_ndim - 1)) & 1u ? n - 1u - i : i) * x_strides[y_ndim - 1];
y[to] = x[from];
)"});
  return kernel;
}

const Kernel& fill_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "fill_elements", .outputs = {"y"}, .source = R"(
uint row = thread_position_in_grid.y;
long to = long(thread_position_in_grid.x) * y_strides[y_ndim - 1];
for (int d = y_ndim - 2; d >= 0; --d) {
  uint n = uint(y_shape[d]);
  to += long(row % n) * y_strides[d];
  row /= n;
}
y[to] = value;
)"});
  return kernel;
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
  const std::array inputs{from.viewed_as(word).with_layout(layouts[0])};
  const std::array outputs{to.viewed_as(word).with_layout(layouts[1])};
  const std::array params{kernel::Param{"flip", flip}};
  const kernel::Size3 grid = grid_of(layouts[1].shape);
  launch(copy_kernel(), {.inputs = inputs,
                         .outputs = outputs,
                         .grid = grid,
                         .threadgroup = copy_group(*this, grid),
                         .params = params});
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
      fill_kernel(),
      {.outputs = outputs, .grid = grid, .threadgroup = copy_group(*this, grid), .params = params});
}

namespace {

class Copy final : public Operation {
 public:
  std::string_view name() const noexcept override { return "copy"; }
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
