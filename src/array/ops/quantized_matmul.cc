#include <fmt/format.h>

#include <array>
#include <string>

#include "holdfast/array/ops/matmul.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/array/scalars.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

constexpr int64_t kBits = 4;
constexpr int64_t kPerWord = 32 / kBits;

// Words lie in blocks of LANES (fewer in the last of a row). Kernels take the same value of all
// words of a block at once: that is a shift of a vector.
constexpr int64_t kQuantizedLanes = 32;

// x, row by row and block by block, in the order in which quantized_rows_kernel() takes it: first
// values of all words, second values, ... And the sums of groups, for the biases.
const Kernel& order_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "quantized_matmul_order",
                                                                .inputs = {"x"},
                                                                .outputs = {"y", "sums"},
                                                                .source = R"(
const long row = thread_position_in_grid.y;
const long first = long(thread_position_in_grid.x) * LANES;
const int width = int(metal::min(long(LANES), depth / 8 - first));
auto from = x + (row * depth + first * 8);
auto to = y + (row * depth + first * 8);
for (int l = 0; l < width; ++l) {
  for (int b = 0; b < 8; ++b) to[b * width + l] = load<A, HALF>(from[l * 8 + b]);
}
for (int g = 0; g < width * 8 / GROUP; ++g) {
  A sum = A(0);
  for (int k = 0; k < GROUP; ++k) sum += load<A, HALF>(from[g * GROUP + k]);
  sums[row * (depth / GROUP) + first * 8 / GROUP + g] = sum;
}
)",
                                                                .header = array::kLoadText});
  return kernel;
}

// A thread has one result. The weights of a group come to scale * sum(x * q) + bias * sum(x).
const Kernel& quantized_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "quantized_matmul",
                         .inputs = {"x", "sums", "w", "scales", "biases"},
                         .outputs = {"y"},
                         .source = R"(
constexpr int WORDS = GROUP / 8;
const long n = thread_position_in_grid.x;
const long row = thread_position_in_grid.y;
const long groups = depth / GROUP;
const long words = depth / 8;
auto from = x + row * depth;
auto packed = w + n * words;
auto scale = scales + n * groups;
A totals[LANES];
for (int l = 0; l < LANES; ++l) totals[l] = A(0);
long first = 0;
for (; first + LANES <= words; first += LANES) {
  A products[LANES];
  for (int l = 0; l < LANES; ++l) products[l] = A(0);
  for (int b = 0; b < 8; ++b) {
    for (int l = 0; l < LANES; ++l) {
      const int q = int(packed[first + l] >> (4 * b) & 15u);
      products[l] += A(q) * from[first * 8 + b * LANES + l];
    }
  }
  for (int g = 0; g < LANES / WORDS; ++g) {
    const A s = A(scale[first / WORDS + g]);
    for (int l = 0; l < WORDS; ++l) totals[g * WORDS + l] += s * products[g * WORDS + l];
  }
}
const int width = int(words - first);
for (int l = 0; l < width; ++l) {
  A product = A(0);
  for (int b = 0; b < 8; ++b) {
    const int q = int(packed[first + l] >> (4 * b) & 15u);
    product += A(q) * from[first * 8 + b * width + l];
  }
  totals[l] += A(scale[(first + l) / WORDS]) * product;
}
A sum = A(0);
for (int l = 0; l < LANES; ++l) sum += totals[l];
for (long g = 0; g < groups; ++g) sum += A(biases[n * groups + g]) * sums[row * groups + g];
y[row * threads_per_grid.x + n] = R(sum);
)"});
  return kernel;
}

// Grouped along the columns: a thread has the columns of one block.
const Kernel& quantized_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "quantized_matmul_columns",
                         .inputs = {"x", "w", "scales", "biases"},
                         .outputs = {"y"},
                         .source = R"(
constexpr int WORDS = GROUP / 8;
const long first = long(thread_position_in_grid.x) * LANES;
const long row = thread_position_in_grid.y;
const long words = columns / 8;
const long groups = columns / GROUP;
const int width = int(metal::min(long(LANES), words - first));
A sums[8][LANES];
A plain[LANES];
A factors[LANES];
for (int l = 0; l < LANES; ++l) plain[l] = factors[l] = A(0);
for (int b = 0; b < 8; ++b) {
  for (int l = 0; l < LANES; ++l) sums[b][l] = A(0);
}
for (long k = 0; k < depth; ++k) {
  const A v = A(x[row * depth + k]);
  auto packed = w + (k * words + first);
  const long group = k * groups + first / WORDS;
  for (int g = 0; g < width / WORDS; ++g) {
    const A s = v * A(scales[group + g]);
    const A bias = v * A(biases[group + g]);
    for (int l = 0; l < WORDS; ++l) {
      factors[g * WORDS + l] = s;
      plain[g * WORDS + l] += bias;
    }
  }
  if (width == LANES) {
    for (int b = 0; b < 8; ++b) {
      for (int l = 0; l < LANES; ++l) {
        sums[b][l] += factors[l] * A(int(packed[l] >> (4 * b) & 15u));
      }
    }
  } else {
    for (int b = 0; b < 8; ++b) {
      for (int l = 0; l < width; ++l) {
        sums[b][l] += factors[l] * A(int(packed[l] >> (4 * b) & 15u));
      }
    }
  }
}
for (int l = 0; l < width; ++l) {
  for (int b = 0; b < 8; ++b) y[row * columns + (first + l) * 8 + b] = R(sums[b][l] + plain[l]);
}
)"});
  return kernel;
}

// The weights themselves: a thread has one group.
const Kernel& dequantize_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{
      .name = "dequantize", .inputs = {"w", "scales", "biases"}, .outputs = {"y"}, .source = R"(
const long g = thread_position_in_grid.x;
const A scale = A(scales[g]);
const A bias = A(biases[g]);
for (int l = 0; l < GROUP / 8; ++l) {
  const uint word = w[g * (GROUP / 8) + l];
  for (int b = 0; b < 8; ++b) {
    y[g * GROUP + l * 8 + b] = scale * A(int(word >> (4 * b) & 15u)) + bias;
  }
}
)"});
  return kernel;
}
// From this many rows on, weights are worth writing out: where both ways take as long for weights
// of 4096 x 4096.
constexpr int64_t kManyRows = 64;

// A thread has one group. The scale is rounded down, so that no step is longer than promised.
const Kernel& quantize_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "quantize",
                         .inputs = {"x"},
                         .outputs = {"w", "scales", "biases"},
                         .source = R"(
const long g = thread_position_in_grid.x;
auto from = x + g * group;
A low = A(from[0]);
A high = low;
for (long k = 1; k < group; ++k) {
  const A v = A(from[k]);
  low = v < low ? v : low;
  high = v > high ? v : high;
}
const T scale = rounded_down((high - low) / A(15));
const A inverse = A(scale) > A(0) ? A(1) / A(scale) : A(0);
scales[g] = scale;
biases[g] = T(low);
for (long word = 0; word < group / 8; ++word) {
  uint bits = 0;
  for (int j = 0; j < 8; ++j) {
    const A q = metal::rint((A(from[word * 8 + j]) - low) * inverse);
    bits |= uint(q > A(15) ? A(15) : q) << (4 * j);
  }
  w[g * (group / 8) + word] = bits;
}
)",
                         .header = R"(
inline T rounded_down(A v) {
  T rounded = T(v);
#if SHORT
  if (A(rounded) > v) rounded = as_type<T>(ushort(as_type<ushort>(rounded) - 1));
#endif
  return rounded;
}
)"});
  return kernel;
}

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
    encoder.launch(order_kernel(),
                   {.inputs = std::array{array::as_bits(work.x)},
                    .outputs = std::array{ordered, sums},
                    .grid = grid,
                    .threadgroup = array::group_of(grid),
                    .constants = std::array<kernel::Constant, 4>{{{"A", work.dtype},
                                                                  {"HALF", array::is_half(work.x)},
                                                                  {"LANES", kQuantizedLanes},
                                                                  {"GROUP", how_.group_size}}},
                    .params = {&depth, 1}});
    grid.x = array::grid_axis(work.columns, kName);
    encoder.launch(quantized_rows_kernel(),
                   {.inputs = std::array{ordered, sums, work.w, work.scales, work.biases},
                    .outputs = {&work.out, 1},
                    .grid = grid,
                    .threadgroup = array::group_of(grid),
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
        quantized_columns_kernel(),
        {.inputs = std::array{work.x, work.w, work.scales, work.biases},
         .outputs = {&work.out, 1},
         .grid = grid,
         .threadgroup = array::group_of(grid),
         .constants = std::array<kernel::Constant, 4>{{{"A", work.dtype},
                                                       {"R", work.out.dtype()},
                                                       {"LANES", kQuantizedLanes},
                                                       {"GROUP", how_.group_size}}},
         .params = std::array<kernel::Param, 2>{{{"depth", work.depth}, {"columns", work.columns}}},
         .work_per_thread = array::share_of(steps(work), grid)});
  }

  void record_many(Encoder& encoder, const Work& work) const {
    const Shape shape{work.w.shape()[0], work.w.shape()[1] * kPerWord};
    const Operand weights = encoder.scratch(shape, work.dtype);
    const kernel::Size3 grid{array::grid_axis(work.scales.size(), kName), 1, 1};
    encoder.launch(dequantize_kernel(), {.inputs = std::array{work.w, work.scales, work.biases},
                                         .outputs = {&weights, 1},
                                         .grid = grid,
                                         .threadgroup = array::group_of(grid),
                                         .constants = std::array<kernel::Constant, 2>{
                                             {{"A", work.dtype}, {"GROUP", how_.group_size}}}});
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
        quantize_kernel(),
        {.inputs = {&in, 1},
         .outputs = outputs,
         .grid = grid,
         .threadgroup = array::group_of(grid),
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
