#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "holdfast/array/ops/matmul.h"
#include "holdfast/array/ops/quantized_kernels.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/array/scalars.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

constexpr int64_t kBits = 4;
constexpr int64_t kPerWord = 32 / kBits;

// Words of a block: see quantized_kernels.h.
constexpr int64_t kQuantizedLanes = 32;
// Rows that a simdgroup of weak threads has, where there are several.
constexpr int64_t kWeakQuantizedRows = 4;
// What products of matrices have at once. Two of them share what is read of x, where there are
// kWeakGroups and more.
constexpr int64_t kQuantizedTileRows = 8;
constexpr int64_t kQuantizedTileColumns = 16;
// How a threadgroup reads weights; see weak_quantized_tiles_kernel().
struct Ring {
  int64_t high, stages, deep;
};
constexpr Ring kRing{.high = 4, .stages = 2, .deep = 2};
// For two of them, whose threads have too few registers for more of x.
constexpr Ring kTallRing{.high = 4, .stages = 3, .deep = 1};
// Where nothing is read ahead, and threadgroups may have no more than 32 KiB.
constexpr Ring kSmallRing{.high = 4, .stages = 1, .deep = 1};
// Up to this many rows, x goes through the ring, too. More rows take more of a GPU's own caches
// than weights do, and come without it.
constexpr int64_t kFewQuantizedRows = 2;
// What a threadgroup may have on CUDA without asking.
constexpr int64_t kMostThreadgroupBytes = int64_t{48} << 10;
// Where rows of a threadgroup are too long together for 32 bits, neither of both is used.
constexpr int64_t kLongQuantizedDepth = int64_t{1} << 27;

// From this many rows on, weights are worth writing out: where both ways take as long for weights
// of 4096 x 4096.
constexpr int64_t kManyRows = 64;

class QuantizedMatmul final : public Operation {
 public:
  explicit QuantizedMatmul(const Quantization& how) : how_(how) {}
  std::string_view name() const noexcept override { return kName; }
  static constexpr const char* kName = "quantized_matmul";

  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    const int64_t depth = encoder.input(0).shape().back();
    if (depth == 0) {
      encoder.fill_elements(out, array::scalar_of(0.0, out.dtype()));
      return;
    }
    Work work{.x = encoder.contiguous(encoder.input(0)),
              .w = encoder.contiguous(encoder.input(1)),
              .scales = encoder.contiguous(encoder.input(2)),
              .biases = encoder.contiguous(encoder.input(3)),
              .out = out,
              .dtype = array::accumulator_of(out.dtype()),
              .rows = out.size() / out.shape().back(),
              .depth = depth,
              .columns = out.shape().back()};
    if (work.rows >= kManyRows) {
      record_many(encoder, work);
    } else if (array::is_many_weak(encoder)) {
      record_weak(encoder, work);
    } else if (how_.transpose) {
      record_rows(encoder, work);
    } else {
      record_columns(encoder, work);
    }
  }

 private:
  struct Work {
    Operand x, w, scales, biases, out;
    Dtype dtype;
    int64_t rows, depth, columns;
  };

  // Several products a step, as the vector units do them.
  static double steps(const Work& work) {
    return static_cast<double>(work.rows) * static_cast<double>(work.depth) *
           static_cast<double>(work.columns) / 4;
  }

  void record_rows(Encoder& encoder, const Work& work) const {
    const Operand ordered = encoder.scratch({work.rows, work.depth}, work.dtype);
    const Operand sums = encoder.scratch({work.rows, work.depth / how_.group_size}, work.dtype);
    const kernel::Param depth{"depth", work.depth};
    kernel::Size3 grid{array::grid_axis(ceil_div(work.depth / kPerWord, kQuantizedLanes), kName),
                       array::grid_axis(work.rows, kName), 1};
    encoder.launch(array::quantized_order_kernel(),
                   {.inputs = std::array{array::as_bits(work.x)},
                    .outputs = std::array{ordered, sums},
                    .grid = grid,
                    .threadgroup = array::group_of(encoder, grid),
                    .constants = std::array<kernel::Constant, 4>{{{"A", work.dtype},
                                                                  {"HALF", array::is_half(work.x)},
                                                                  {"LANES", kQuantizedLanes},
                                                                  {"GROUP", how_.group_size}}},
                    .params = {&depth, 1}});
    grid.x = array::grid_axis(work.columns, kName);
    encoder.launch(array::quantized_rows_kernel(),
                   {.inputs = std::array{ordered, sums, work.w, work.scales, work.biases},
                    .outputs = {&work.out, 1},
                    .grid = grid,
                    .threadgroup = array::group_of(encoder, grid),
                    .constants = std::array<kernel::Constant, 4>{{{"A", work.dtype},
                                                                  {"R", work.out.dtype()},
                                                                  {"LANES", kQuantizedLanes},
                                                                  {"GROUP", how_.group_size}}},
                    .params = {&depth, 1},
                    .work_per_thread = array::share_of(steps(work), grid)});
  }

  void record_columns(Encoder& encoder, const Work& work) const {
    const kernel::Size3 grid{
        array::grid_axis(ceil_div(work.columns / kPerWord, kQuantizedLanes), kName),
        array::grid_axis(work.rows, kName), 1};
    encoder.launch(
        array::quantized_columns_kernel(),
        {.inputs = std::array{work.x, work.w, work.scales, work.biases},
         .outputs = {&work.out, 1},
         .grid = grid,
         .threadgroup = array::group_of(encoder, grid),
         .constants = std::array<kernel::Constant, 4>{{{"A", work.dtype},
                                                       {"R", work.out.dtype()},
                                                       {"LANES", kQuantizedLanes},
                                                       {"GROUP", how_.group_size}}},
         .params = std::array<kernel::Param, 2>{{{"depth", work.depth}, {"columns", work.columns}}},
         .work_per_thread = array::share_of(steps(work), grid)});
  }

  // The threadgroup memory of weak_quantized_tiles_kernel().
  int64_t ring_bytes(const Work& work, const Ring& ring, int64_t tall, int64_t wide,
                     int64_t few) const {
    const int64_t columns = wide * kQuantizedTileColumns;
    const int64_t rows = few > 0 ? few : tall * kQuantizedTileRows;
    const auto parts =
        static_cast<int64_t>((size_of(work.scales.dtype()) + size_of(work.biases.dtype())).value);
    const int64_t stage = columns * ring.deep * (64 + 128 / how_.group_size * parts) +
                          std::max<int64_t>(few * ring.deep * 16, 1) * 16;
    return ring.high * (ring.stages * stage + rows * columns * 4);
  }

  void record_weak(Encoder& encoder, const Work& work) const {
    std::vector<kernel::Constant> constants{{"A", work.dtype},
                                            {"R", work.out.dtype()},
                                            {"HALF", array::is_half(work.x)},
                                            {"GROUP", how_.group_size}};
    std::vector<kernel::Param> params{{"depth", work.depth}, {"columns", work.columns}};
    // In float32, of x as bits.
    const bool shorts = how_.transpose && size_of(work.x.dtype()) == Bytes(2) &&
                        work.dtype == Dtype::float32 && work.depth < kLongQuantizedDepth;
    int64_t count = ceil_div(work.columns / kPerWord, array::kWeakWidth) * work.rows;
    kernel::Size3 group = array::kWeakTile;
    const Kernel* kernel = &array::weak_quantized_columns_kernel();
    if (shorts) {
      kernel = &array::weak_quantized_tiles_kernel();
      const int64_t tall = work.rows <= kQuantizedTileRows ? 1 : 2;
      const int64_t wide = work.columns < array::kWeakGroups * kQuantizedTileColumns ? 1 : 2;
      Ring ring = tall == 1 ? kRing : kTallRing;
      if (encoder.device().module_form == hal::ModuleForm::spirv) ring = kSmallRing;
      int64_t few = work.rows <= kFewQuantizedRows ? work.rows : 0;
      const auto is_too_large = [&] {
        return ring_bytes(work, ring, tall, wide, few) > kMostThreadgroupBytes;
      };
      if (is_too_large()) few = 0;
      if (is_too_large()) ring.deep = 1;
      count = ceil_div(work.columns, wide * kQuantizedTileColumns) *
              ceil_div(work.rows, tall * kQuantizedTileRows);
      group.y = static_cast<uint32_t>(ring.high);
      constants[0] = {"T", work.x.dtype()};
      constants.push_back({"FEW", few});
      constants.push_back({"TALL", tall});
      constants.push_back({"WIDE", wide});
      constants.push_back({"HIGH", ring.high});
      constants.push_back({"STAGES", ring.stages});
      constants.push_back({"DEEP", ring.deep});
      params.push_back({"rows", work.rows});
    } else if (how_.transpose) {
      kernel = &array::weak_quantized_rows_kernel();
      const int64_t rows = work.rows == 1 ? 1 : kWeakQuantizedRows;
      count = ceil_div(work.columns, array::kWeakHeight) * ceil_div(work.rows, rows);
      constants.push_back({"ROWS", rows});
      params.push_back({"rows", work.rows});
    }
    const auto groups = array::weak_groups(count, group, 1, kName);
    params.push_back(groups.count);
    encoder.launch(*kernel, {.inputs = std::array{shorts ? work.x.viewed_as(Dtype::uint16)
                                                         : array::as_bits(work.x),
                                                  work.w, work.scales, work.biases},
                             .outputs = {&work.out, 1},
                             .grid = groups.grid,
                             .threadgroup = groups.group,
                             .constants = constants,
                             .params = params,
                             .work_per_thread = array::share_of(4 * steps(work), groups.grid)});
  }

  void record_many(Encoder& encoder, const Work& work) const {
    const Shape shape{work.w.shape()[0], work.w.shape()[1] * kPerWord};
    const Operand weights = encoder.scratch(shape, work.dtype);
    const int64_t words = array::is_many_weak(encoder) ? 1 : how_.group_size / kPerWord;
    const kernel::Size3 grid{array::grid_axis(work.w.size() / words, kName), 1, 1};
    encoder.launch(array::dequantize_kernel(),
                   {.inputs = std::array{work.w, work.scales, work.biases},
                    .outputs = {&weights, 1},
                    .grid = grid,
                    .threadgroup = array::group_of(encoder, grid),
                    .constants = std::array<kernel::Constant, 3>{
                        {{"A", work.dtype}, {"WORDS", words}, {"GROUP", how_.group_size}}}});
    array::record_matmul(
        encoder,
        work.x.with_layout({{work.rows, work.depth}, {work.depth, 1}, work.x.layout().offset}),
        how_.transpose ? weights.with_layout(array::transpose(weights.layout(), {})) : weights, {},
        work.out.with_layout(Layout::row_contiguous({work.rows, work.columns})));
  }

  Quantization how_;
};

class Quantize final : public Operation {
 public:
  explicit Quantize(const Quantization& how) : how_(how) {}
  std::string_view name() const noexcept override { return "quantize"; }
  void record(Encoder& encoder) const override {
    const std::array outputs{encoder.output(0), encoder.output(1), encoder.output(2)};
    if (outputs[1].size() == 0) return;
    const Operand in = encoder.contiguous(encoder.input(0));
    const kernel::Size3 grid{array::grid_axis(outputs[1].size(), "quantize"), 1, 1};
    encoder.launch(
        array::quantize_kernel(),
        {.inputs = {&in, 1},
         .outputs = outputs,
         .grid = grid,
         .threadgroup = array::group_of(encoder, grid),
         .constants = std::array<kernel::Constant, 3>{{{"A", array::accumulator_of(in.dtype())},
                                                       {"T", in.dtype()},
                                                       {"SHORT", size_of(in.dtype()) == Bytes(2)}}},
         .params = std::array<kernel::Param, 1>{{{"group", how_.group_size}}}});
  }

 private:
  Quantization how_;
};

void check(const Quantization& how, const char* what) {
  if (how.bits != kBits) {
    throw UsageError(fmt::format("{}: {} bits for a weight; only 4 are there", what, how.bits));
  }
  if (how.group_size != 32 && how.group_size != 64 && how.group_size != 128) {
    throw UsageError(fmt::format("{}: groups of {}; use 32, 64 or 128", what, how.group_size));
  }
}

void check_floats(const Array& array, const char* which, const char* what) {
  if (is_floating(array.dtype())) return;
  throw UsageError(fmt::format("{}: {} has the dtype {}; convert it to floats with astype first",
                               what, which, to_string(array.dtype())));
}

}  // namespace

Array quantized_matmul(const Array& x, const Array& w, const Array& scales, const Array& biases,
                       const Quantization& how, const On& on) {
  constexpr const char* kWhat = QuantizedMatmul::kName;
  check(how, kWhat);
  check_floats(x, "x", kWhat);
  check_floats(scales, "scales", kWhat);
  check_floats(biases, "biases", kWhat);
  if (w.dtype() != Dtype::uint32 || w.ndim() != 2) {
    throw UsageError(fmt::format(
        "{}: w has the dtype {} and the shape {}; it must be uint32 with two dimensions, as "
        "quantize gives it",
        kWhat, to_string(w.dtype()), to_string(w.shape())));
  }
  const int64_t values = w.shape(1) * kPerWord;  // of one row of w
  const int64_t depth = how.transpose ? values : w.shape(0);
  const int64_t columns = how.transpose ? w.shape(0) : values;
  if (x.ndim() == 0 || x.shape(-1) != depth) {
    throw UsageError(fmt::format("{}: x of shape {} meets weights for {} inputs; {}", kWhat,
                                 to_string(x.shape()), depth,
                                 "its last length must be that, or `transpose` be changed"));
  }
  const Shape groups{w.shape(0), values / how.group_size};
  if (values % how.group_size != 0 || scales.shape() != groups || biases.shape() != groups) {
    throw UsageError(fmt::format(
        "{}: {} weights in a row in groups of {} want scales and biases of shape ({}, {}); those "
        "here have {} and {}",
        kWhat, values, how.group_size, groups[0],
        values % how.group_size == 0 ? std::to_string(groups[1]) : "a whole number",
        to_string(scales.shape()), to_string(biases.shape())));
  }
  Shape shape = x.shape();
  shape[shape.size() - 1] = columns;
  const Dtype dtype = promote(x.dtype(), promote(scales.dtype(), biases.dtype()));
  return apply(make_ref<const QuantizedMatmul>(how), std::array{x, w, scales, biases},
               {shape, dtype}, on);
}

std::vector<Array> quantize(const Array& array, const Quantization& how, const On& on) {
  check(how, "quantize");
  check_floats(array, "the array", "quantize");
  if (array.ndim() != 2 || array.shape(1) % how.group_size != 0) {
    throw UsageError(fmt::format(
        "quantize: an array of shape {}; it must have two dimensions, and the last be a multiple "
        "of the group size, {}",
        to_string(array.shape()), how.group_size));
  }
  const Shape words{array.shape(0), array.shape(1) / kPerWord};
  const Shape groups{array.shape(0), array.shape(1) / how.group_size};
  const std::array<OutputType, 3> outputs{
      {{words, Dtype::uint32}, {groups, array.dtype()}, {groups, array.dtype()}}};
  return apply(make_ref<const Quantize>(how), {&array, 1}, outputs, on);
}

}  // namespace holdfast
