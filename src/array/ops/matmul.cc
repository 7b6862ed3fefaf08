#include "holdfast/array/ops/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "holdfast/array/ops/matmul_kernels.h"
#include "holdfast/array/ops/matrix_library.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/array/scalars.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

// Panels of a large product. A thread has kTallTile of them times kBroadTile; kTileDepth steps of
// depth of those are in a core's cache at a time. Eight
// other choices were no faster for the loop of operation/matmul/float32/2048x2048x2048 on one core.
constexpr int64_t kTileRows = 12;
constexpr int64_t kTileColumns = 32;
constexpr int64_t kTallTile = 8;
constexpr int64_t kBroadTile = 4;
constexpr int64_t kTileDepth = 256;
// Products with fewer rows, columns or multiplications are not worth putting their inputs in order
// for that.
constexpr int64_t kFewMatmulRows = 4;
constexpr int64_t kFewProducts = 1 << 15;
// Of a small product, a thread computes this many columns of one row.
constexpr int64_t kRowColumns = 64;
// Elements along the summed axis that a thread puts in order.
constexpr int64_t kPackDepth = 64;
// Panels that threads of one group put in order.
constexpr uint32_t kPackPanels = 8;
// What a group of weak threads computes of a large product, squared; products with fewer rows or
// columns than fill a quarter of it are computed row by row.
constexpr int64_t kWeakTileSide = 64;
constexpr int64_t kFewWeakRows = 16;

// A matrix for each element of a batch: the axes of the batch, then two.
struct Matrices {
  Operand operand;
  Layout batch;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t down = 0;   // from one row to the next
  int64_t right = 0;  // from one column to the next

  Matrices(const Operand& of, const Shape& batch_shape) : operand(of) {
    const Layout& own = of.layout();
    const size_t rank = own.shape.size();
    Shape full = batch_shape;
    full.push_back(own.shape[rank - 2]);
    full.push_back(own.shape[rank - 1]);
    set(array::broadcast_to(own, full));
  }
  void set(const Layout& layout) {
    const size_t rank = layout.shape.size();
    batch = {.offset = layout.offset};
    for (size_t i = 0; i + 2 < rank; ++i) {
      batch.shape.push_back(layout.shape[i]);
      batch.strides.push_back(layout.strides[i]);
    }
    rows = layout.shape[rank - 2];
    columns = layout.shape[rank - 1];
    down = layout.strides[rank - 2];
    right = layout.strides[rank - 1];
  }
  Layout layout() const {
    Layout all = batch;
    all.shape.push_back(rows);
    all.shape.push_back(columns);
    all.strides.push_back(down);
    all.strides.push_back(right);
    return all;
  }
  bool is_one() const {
    return std::ranges::all_of(batch.strides, [](int64_t stride) { return stride == 0; }) ||
           elements(batch.shape) == 1;
  }
  // The first of the batch alone.
  void take_one() { batch = {{1}, {0}, batch.offset}; }
  void transpose() {
    std::swap(rows, columns);
    std::swap(down, right);
  }
  Operand plain() const { return operand.with_layout(layout()); }
  Operand bound() const { return array::as_bits(operand).with_layout(layout()); }
  bool is_half() const { return array::is_half(operand); }
};

// Products of the whole multiplication.
double products(const Matrices& a, const Matrices& b) {
  return static_cast<double>(elements(a.batch.shape)) * static_cast<double>(a.rows) *
         static_cast<double>(a.columns) * static_cast<double>(b.columns);
}
// That the vector units do in the time of one step of a short thread.
constexpr double kProductsPerStep = 8;

// A product whose c has any strides, of operands as they lie.
struct Rows {
  Matrices a;
  Matrices b;
  int64_t c_batch;
  int64_t c_row;
  int64_t c_column = 1;

  // Kernels have many columns: where there are fewer than `few`, the transposed product has more.
  Rows(Matrices left, Matrices right, int64_t few)
      : a(std::move(left)), b(std::move(right)), c_batch(a.rows * b.columns), c_row(b.columns) {
    if (b.columns >= few || a.rows <= b.columns) return;
    std::swap(a, b);
    a.transpose();
    b.transpose();
    std::swap(c_row, c_column);
  }
  std::array<kernel::Param, 3> params() const {
    return {{{"c_batch", c_batch}, {"c_row", c_row}, {"c_column", c_column}}};
  }
};

std::array<kernel::Constant, 4> matmul_constants(const Matrices& a, const Matrices& b,
                                                 const Operand& out) {
  return {{{"A", array::accumulator_of(out.dtype())},
           {"R", out.dtype()},
           {"A_HALF", a.is_half()},
           {"B_HALF", b.is_half()}}};
}

void record_rows(Encoder& encoder, const Rows& of, const Operand& out) {
  const kernel::Size3 grid{array::grid_axis(ceil_div(of.b.columns, kRowColumns), "matmul"),
                           array::grid_axis(of.a.rows, "matmul"),
                           array::grid_axis(elements(of.a.batch.shape), "matmul")};
  encoder.launch(array::matmul_rows_kernel(), {.inputs = std::array{of.a.bound(), of.b.bound()},
                                               .outputs = {&out, 1},
                                               .grid = grid,
                                               .threadgroup = array::group_of(encoder, grid),
                                               .constants = matmul_constants(of.a, of.b, out),
                                               .params = of.params(),
                                               .work_per_thread = array::share_of(
                                                   products(of.a, of.b) / kProductsPerStep, grid)});
}

void record_weak_rows(Encoder& encoder, const Rows& of, const Operand& out) {
  const auto groups = array::weak_groups(
      elements(of.a.batch.shape) * of.a.rows * ceil_div(of.b.columns, array::kWeakWidth),
      array::kWeakTile, 1, "matmul");
  const auto [c_batch, c_row, c_column] = of.params();
  encoder.launch(array::weak_matmul_rows_kernel(),
                 {.inputs = std::array{of.a.bound(), of.b.bound()},
                  .outputs = {&out, 1},
                  .grid = groups.grid,
                  .threadgroup = groups.group,
                  .constants = matmul_constants(of.a, of.b, out),
                  .params = std::array{c_batch, c_row, c_column, groups.count},
                  .work_per_thread = array::share_of(products(of.a, of.b), groups.grid)});
}

void record_weak_tiles(Encoder& encoder, const Matrices& a, const Matrices& b, const Operand& out) {
  const auto groups = array::weak_groups(elements(a.batch.shape) * ceil_div(a.rows, kWeakTileSide) *
                                             ceil_div(b.columns, kWeakTileSide),
                                         array::kWeakLine, 1, "matmul");
  encoder.launch(array::weak_matmul_tiles_kernel(),
                 {.inputs = std::array{a.bound(), b.bound()},
                  .outputs = {&out, 1},
                  .grid = groups.grid,
                  .threadgroup = groups.group,
                  .constants = matmul_constants(a, b, out),
                  .params = {&groups.count, 1},
                  .work_per_thread = array::share_of(products(a, b), groups.grid)});
}

// Panels of matrices with the summed axis as rows.
Operand pack(Encoder& encoder, Matrices x, int64_t width, Dtype dtype) {
  if (x.is_one()) x.take_one();
  const int64_t panels = ceil_div(x.columns, width);
  const int64_t count = elements(x.batch.shape);
  Operand to = encoder.scratch({count, panels, x.rows, width}, dtype);
  const kernel::Size3 grid{array::grid_axis(panels, "matmul"),
                           array::grid_axis(ceil_div(x.rows, kPackDepth), "matmul"),
                           array::grid_axis(count, "matmul")};
  encoder.launch(
      array::matmul_pack_kernel(),
      {.inputs = std::array{x.bound()},
       .outputs = {&to, 1},
       .grid = grid,
       .threadgroup = {std::min(grid.x, kPackPanels), 1, 1},
       .constants =
           std::array<kernel::Constant, 3>{{{"A", dtype}, {"WIDTH", width}, {"HALF", x.is_half()}}},
       .params = std::array{kernel::Param{"block", kPackDepth}},
       .work_per_thread = static_cast<uint32_t>(width * kPackDepth / 8)});
  return to;
}

void record_tiles(Encoder& encoder, Matrices a, const Matrices& b, const Operand& out) {
  const int64_t rows = a.rows;
  const int64_t depth = a.columns;
  const int64_t columns = b.columns;
  const int64_t count = elements(a.batch.shape);
  const Dtype dtype = array::accumulator_of(out.dtype());
  const double steps = products(a, b) / kProductsPerStep;
  a.transpose();
  const Operand packed_a = pack(encoder, a, kTileRows, dtype);
  const Operand packed_b = pack(encoder, b, kTileColumns, dtype);
  const auto batch_stride = [](const Operand& packed) {
    return packed.shape()[0] == 1 ? int64_t{0} : packed.layout().strides[0];
  };
  const kernel::Size3 grid{array::grid_axis(ceil_div(columns, kBroadTile * kTileColumns), "matmul"),
                           array::grid_axis(ceil_div(rows, kTallTile * kTileRows), "matmul"),
                           array::grid_axis(count, "matmul")};
  encoder.launch(array::matmul_tiles_kernel(),
                 {.inputs = std::array{packed_a, packed_b},
                  .outputs = {&out, 1},
                  .grid = grid,
                  .threadgroup = {1, 1, 1},
                  .constants = std::array<kernel::Constant, 7>{{{"A", dtype},
                                                                {"R", out.dtype()},
                                                                {"ROWS", kTileRows},
                                                                {"COLUMNS", kTileColumns},
                                                                {"TALL", kTallTile},
                                                                {"BROAD", kBroadTile},
                                                                {"DEPTH", kTileDepth}}},
                  .params = std::array<kernel::Param, 5>{{{"a_batch", batch_stride(packed_a)},
                                                          {"b_batch", batch_stride(packed_b)},
                                                          {"rows", rows},
                                                          {"columns", columns},
                                                          {"depth", depth}}},
                  .work_per_thread = array::share_of(steps, grid)});
}

class MatmulOperation final : public Operation {
 public:
  std::string_view name() const noexcept override { return "matmul"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    array::record_matmul(encoder, encoder.input(0), encoder.input(1), batch_of(out.shape()), out);
  }
  std::vector<Shape> output_shapes(std::span<const Shape> inputs,
                                   std::span<const Shape> /*before*/) const override {
    return {shape_of_product(inputs[0], inputs[1])};
  }

  // Of matrices.
  static Shape shape_of_product(const Shape& a, const Shape& b) {
    check_depth(a, b);
    Shape shape = array::broadcast_shapes(batch_of(a), batch_of(b));
    shape.push_back(a[a.size() - 2]);
    shape.push_back(b[b.size() - 1]);
    return shape;
  }
  static void check_depth(const Shape& a, const Shape& b) {
    const int64_t depth = b[b.size() < 2 ? 0 : b.size() - 2];
    if (a[a.size() - 1] == depth) return;
    throw UsageError(fmt::format(
        "matmul: shapes {} and {} do not fit: rows of {} elements meet columns of {}; transpose "
        "one of them, perhaps",
        to_string(a), to_string(b), a[a.size() - 1], depth));
  }

 private:
  static Shape batch_of(const Shape& shape) { return Shape(shape.span().first(shape.size() - 2)); }
};

void check(const Array& a, const Array& b) {
  for (const Array* array : {&a, &b}) {
    if (!is_floating(array->dtype())) {
      throw UsageError(
          fmt::format("matmul: an array of {} is no matrix of floats; convert it with "
                      "astype first",
                      to_string(array->dtype())));
    }
    if (array->ndim() == 0) {
      throw UsageError("matmul: an array without dimensions is no matrix; multiply by it instead");
    }
  }
  MatmulOperation::check_depth(a.shape(), b.shape());
}

}  // namespace

void array::record_matmul(Encoder& encoder, const Operand& left, const Operand& right,
                          const Shape& batch, const Operand& out) {
  if (out.size() == 0) return;
  if (left.size() == 0) {
    encoder.fill_elements(out, scalar_of(0.0, out.dtype()));
    return;
  }
  MatrixLibrary library(encoder, left, right, out);
  const auto matrices = [&](const Operand& in) {
    const bool as_it_lies = !in.layout().has_negative_strides() &&
                            (!library || MatrixLibrary::layout_of(in).has_value());
    return Matrices(as_it_lies ? in : encoder.contiguous(in), batch);
  };
  Matrices a = matrices(left);
  Matrices b = matrices(right);
  // Matrices that all meet the same b are one long matrix where they lie like one.
  const int64_t count = elements(batch);
  if (count > 1 && b.is_one() && count * a.rows <= std::numeric_limits<int32_t>::max()) {
    if (const auto one = reshape(a.layout(), {1, count * a.rows, a.columns})) {
      a.set(*one);
      b.take_one();
    }
  }
  std::array batches{a.batch, b.batch};
  collapse(batches);
  a.batch = batches[0];
  b.batch = batches[1];
  if (library.record(a.plain(), b.plain(), out)) return;
  const int64_t products = a.rows * b.columns * a.columns;
  const int64_t shorter = std::min(a.rows, b.columns);
  if (is_many_weak(encoder)) {
    if (shorter < kFewWeakRows) return record_weak_rows(encoder, Rows(a, b, kFewWeakRows), out);
    return record_weak_tiles(encoder, a, b, out);
  }
  if (shorter < kFewMatmulRows || products < kFewProducts) {
    return record_rows(encoder, Rows(a, b, kFewMatmulRows), out);
  }
  record_tiles(encoder, a, b, out);
}

Array matmul(const Array& a, const Array& b, const On& on) {
  check(a, b);
  const std::array inputs{a.ndim() == 1 ? expand_dims(a, {0}) : a,
                          b.ndim() == 1 ? expand_dims(b, {1}) : b};
  const Shape shape = MatmulOperation::shape_of_product(inputs[0].shape(), inputs[1].shape());
  Array product =
      apply(make_ref<const MatmulOperation>(), inputs, {shape, promote(a.dtype(), b.dtype())}, on);
  if (a.ndim() == 1 && b.ndim() == 1) return squeeze(product, {-2, -1});
  if (a.ndim() == 1) return squeeze(product, {-2});
  if (b.ndim() == 1) return squeeze(product, {-1});
  return product;
}

}  // namespace holdfast
