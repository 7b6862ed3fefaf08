#include <array>
#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

// Rows of n elements, `step` apart; pieces of rows are rows, too.
constexpr const char* kSoftmaxHeader = R"(
constexpr int LANES = 32;
constexpr int BLOCK = 128;

// e^x of what is not above zero, in simple operations that compilers make vectors of. Off by two
// units in the last place at most; what float32 has no normal number for is zero.
inline float exp_below(float x) {
  const float low = x < -87.0f ? -87.0f : x;
  const float shifted = low * 1.44269504f + 12582912.0f;  // its low bits are the whole number
  const float whole = shifted - 12582912.0f;
  const float f = (low - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.394114660e-03f;
  p = p * f + 8.375156955e-03f;
  p = p * f + 4.166635244e-02f;
  p = p * f + 1.666641515e-01f;
  p = p * f + 5.000000047e-01f;
  p = p * f + 1.000000038e+00f;
  p = p * f + 1.0f;
  const uint power = (as_type<uint>(shifted) + 127u) << 23;
  return x < -87.0f ? 0.0f : p * as_type<float>(power);
}
inline double exp_below(double x) { return metal::exp(x); }

template <bool kHalf, class P>
A largest(P row, long n, long step) {
  A best = load<A, kHalf>(row[0]);
  long k = 0;
  if (step == 1 && n >= LANES) {
    A lanes[LANES];
    for (int j = 0; j < LANES; ++j) lanes[j] = load<A, kHalf>(row[j]);
    for (k = LANES; k + LANES <= n; k += LANES) {
      for (int j = 0; j < LANES; ++j) {
        const A v = load<A, kHalf>(row[k + j]);
        lanes[j] = v > lanes[j] ? v : lanes[j];
      }
    }
    for (int j = 0; j < LANES; ++j) best = lanes[j] > best ? lanes[j] : best;
  }
  for (; k < n; ++k) {
    const A v = load<A, kHalf>(row[k * step]);
    best = v > best ? v : best;
  }
  return best;
}

// In blocks, so that the error of a long sum is that of a short one.
template <class P>
A sum_of_powers(P row, long n, long step, A best) {
  A sum = A(0);
  long k = 0;
  if (step == 1) {
    while (n - k >= LANES) {
      const long stop = k + metal::min(long(BLOCK * LANES), (n - k) / LANES * LANES);
      A lanes[LANES];
      for (int j = 0; j < LANES; ++j) lanes[j] = A(0);
      for (; k < stop; k += LANES) {
        for (int j = 0; j < LANES; ++j) {
          lanes[j] += exp_below(load<A, HALF>(row[k + j]) - best);
        }
      }
      for (int width = LANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
      }
      sum += lanes[0];
    }
  }
  while (k < n) {
    const long stop = metal::min(k + BLOCK, n);
    A part = A(0);
    for (; k < stop; ++k) part += exp_below(load<A, HALF>(row[k * step]) - best);
    sum += part;
  }
  return sum;
}

// LANES at a time: first the numbers, then their conversion, since the one may be made of vectors
// where the other is not.
template <class P, class Q>
void write(P row, long step, Q to, long to_step, long n, A best, A sum) {
  const A scale = A(1) / sum;
  long k = 0;
  if (step == 1) {
    for (; k + LANES <= n; k += LANES) {
      A values[LANES];
      for (int j = 0; j < LANES; ++j) {
        values[j] = exp_below(load<A, HALF>(row[k + j]) - best) * scale;
      }
      for (int j = 0; j < LANES; ++j) to[(k + j) * to_step] = R(values[j]);
    }
  }
  for (; k < n; ++k) {
    to[k * to_step] = R(exp_below(load<A, HALF>(row[k * step]) - best) * scale);
  }
}
)";

// x has the axis last; in y its elements are y_step apart.
constexpr const char* kRow = R"(
const long i = thread_position_in_grid.x;
const int last = x_ndim - 1;
const long step = x_strides[last];
const long n = x_shape[last];
auto row = x + elem_to_loc(i, x_shape, x_strides, last);
)";

const Kernel& softmax_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "softmax",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = std::string(kRow) + R"(
const A best = largest<HALF>(row, n, step);
const A sum = sum_of_powers(row, n, step, best);
write(row, step, y + (i / y_step * n * y_step + i % y_step), y_step, n, best, sum);
)",
                         .header = std::string(array::kLoadText) + kSoftmaxHeader});
  return kernel;
}

// Rows side by side, y_step of them: a thread has up to 32.
const Kernel& softmax_columns_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "softmax_columns",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = R"(
const int last = x_ndim - 1;
const long step = x_strides[last];
const long n = x_shape[last];
const long first = long(thread_position_in_grid.x) * LANES;
const long line = thread_position_in_grid.y;
const int width = int(metal::min(long(LANES), y_step - first));
auto from = x + elem_to_loc(line * y_step + first, x_shape, x_strides, last);
auto to = y + (line * n * y_step + first);
A bests[LANES];
A sums[LANES];
for (int j = 0; j < LANES; ++j) sums[j] = bests[j] = A(0);
for (int j = 0; j < width; ++j) bests[j] = load<A, HALF>(from[j]);
if (width == LANES) {
  for (long k = 1; k < n; ++k) {
    for (int j = 0; j < LANES; ++j) {
      const A v = load<A, HALF>(from[k * step + j]);
      bests[j] = v > bests[j] ? v : bests[j];
    }
  }
} else {
  for (long k = 1; k < n; ++k) {
    for (int j = 0; j < width; ++j) {
      const A v = load<A, HALF>(from[k * step + j]);
      bests[j] = v > bests[j] ? v : bests[j];
    }
  }
}
for (long k = 0; k < n;) {
  const long stop = metal::min(k + BLOCK, n);
  A parts[LANES];
  for (int j = 0; j < LANES; ++j) parts[j] = A(0);
  for (; k < stop; ++k) {
    if (width == LANES) {
      for (int j = 0; j < LANES; ++j) {
        parts[j] += exp_below(load<A, HALF>(from[k * step + j]) - bests[j]);
      }
    } else {
      for (int j = 0; j < width; ++j) {
        parts[j] += exp_below(load<A, HALF>(from[k * step + j]) - bests[j]);
      }
    }
  }
  for (int j = 0; j < LANES; ++j) sums[j] += parts[j];
}
for (int j = 0; j < LANES; ++j) sums[j] = A(1) / sums[j];
for (long k = 0; k < n; ++k) {
  A values[LANES];
  if (width == LANES) {
    for (int j = 0; j < LANES; ++j) {
      values[j] = exp_below(load<A, HALF>(from[k * step + j]) - bests[j]) * sums[j];
    }
  } else {
    for (int j = 0; j < width; ++j) {
      values[j] = exp_below(load<A, HALF>(from[k * step + j]) - bests[j]) * sums[j];
    }
  }
  for (int j = 0; j < width; ++j) to[k * y_step + j] = R(values[j]);
}
)",
                         .header = std::string(array::kLoadText) + kSoftmaxHeader});
  return kernel;
}

// Long rows are cut into pieces: of each its largest element and the sum that goes with that.
constexpr const char* kPiece = R"(
const long piece = thread_position_in_grid.y;
const long pieces = threads_per_grid.y;
const long begin = piece * piece_length;
const long length = metal::min(piece_length, n - begin);
)";

const Kernel& softmax_pieces_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "softmax_pieces",
                         .inputs = {"x"},
                         .outputs = {"largests", "sums"},
                         .source = std::string(kRow) + kPiece + R"(
const A best = largest<HALF>(row + begin * step, length, step);
largests[i * pieces + piece] = best;
sums[i * pieces + piece] = sum_of_powers(row + begin * step, length, step, best);
)",
                         .header = std::string(array::kLoadText) + kSoftmaxHeader});
  return kernel;
}

const Kernel& softmax_join_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "softmax_join",
                         .inputs = {"x", "largests", "sums"},
                         .outputs = {"y"},
                         .source = std::string(kRow) + kPiece + R"(
const A best = largest<false>(largests + i * pieces, pieces, 1);
A sum = A(0);
for (long p = 0; p < pieces; ++p) {
  // Nothing but minus infinity counts for nothing, unless there is nothing else.
  const A of = largests[i * pieces + p];
  sum += of == best ? sums[i * pieces + p]
                    : (of == A(-INFINITY) ? A(0) : sums[i * pieces + p] * exp_below(of - best));
}
const long to = i / y_step * n * y_step + i % y_step + begin * y_step;
write(row + begin * step, step, y + to, y_step, length, best, sum);
)",
                         .header = std::string(array::kLoadText) + kSoftmaxHeader});
  return kernel;
}

// Below this many rows they are cut into pieces, of at least that many elements.
constexpr int64_t kFewSoftmaxRows = 32;
constexpr int64_t kSoftmaxPieceElements = 4096;
constexpr int64_t kMaxSoftmaxPieces = 64;
// Of the kernel for columns, and how many make it worth it.
constexpr int64_t kSoftmaxColumns = 32;
constexpr int64_t kFewColumns = 8;

class SoftmaxOperation final : public Operation {
 public:
  explicit SoftmaxOperation(size_t axis) : axis_(axis) {}
  std::string_view name() const noexcept override { return "softmax"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    Operand in = encoder.input(0);
    if (in.layout().has_negative_strides()) in = encoder.contiguous(in);
    const int64_t y_step = out.layout().strides[axis_];
    in = in.with_layout(array::with_axis_last(in.layout(), axis_));
    const int64_t length = in.shape().back();
    const int64_t rows = in.size() / length;
    const double steps = 4.0 * static_cast<double>(in.size());  // exponentials are dear

    const Dtype work = array::accumulator_of(out.dtype());
    const std::array constants{kernel::Constant{"A", work}, kernel::Constant{"R", out.dtype()},
                               kernel::Constant{"HALF", array::is_half(in)}};
    in = array::as_bits(in);
    const kernel::Param step{"y_step", y_step};
    kernel::Size3 grid{array::grid_axis(rows, "softmax"), 1, 1};
    // The last axis that is kept: whether as many rows lie side by side in x as in y.
    const size_t side = in.shape().size() - 2;
    if (y_step >= kFewColumns && in.layout().strides[side] == 1 && in.shape()[side] % y_step == 0) {
      grid = {array::grid_axis(ceil_div(y_step, kSoftmaxColumns), "softmax"),
              array::grid_axis(rows / y_step, "softmax"), 1};
      encoder.launch(softmax_columns_kernel(), {.inputs = {&in, 1},
                                                .outputs = {&out, 1},
                                                .grid = grid,
                                                .threadgroup = array::group_of(grid),
                                                .constants = constants,
                                                .params = {&step, 1},
                                                .work_per_thread = array::share_of(steps, grid)});
      return;
    }
    if (rows >= kFewSoftmaxRows || length < 2 * kSoftmaxPieceElements) {
      encoder.launch(softmax_rows_kernel(), {.inputs = {&in, 1},
                                             .outputs = {&out, 1},
                                             .grid = grid,
                                             .threadgroup = array::group_of(grid),
                                             .constants = constants,
                                             .params = {&step, 1},
                                             .work_per_thread = array::share_of(steps, grid)});
      return;
    }
    const int64_t piece_length =
        ceil_div(length, std::min<int64_t>(length / kSoftmaxPieceElements, kMaxSoftmaxPieces));
    const int64_t pieces = ceil_div(length, piece_length);
    const Operand largests = encoder.scratch({rows, pieces}, work);
    const Operand sums = encoder.scratch({rows, pieces}, work);
    const kernel::Param piece{"piece_length", piece_length};
    grid.y = static_cast<uint32_t>(pieces);
    encoder.launch(softmax_pieces_kernel(), {.inputs = {&in, 1},
                                             .outputs = std::array{largests, sums},
                                             .grid = grid,
                                             .threadgroup = array::group_of(grid),
                                             .constants = constants,
                                             .params = {&piece, 1},
                                             .work_per_thread = array::share_of(steps, grid)});
    encoder.launch(softmax_join_kernel(), {.inputs = std::array{in, largests, sums},
                                           .outputs = {&out, 1},
                                           .grid = grid,
                                           .threadgroup = array::group_of(grid),
                                           .constants = constants,
                                           .params = std::array{step, piece},
                                           .work_per_thread = array::share_of(steps, grid)});
  }

 private:
  size_t axis_;
};

}  // namespace

Array softmax(const Array& a, int64_t axis, const On& on) {
  const size_t at = array::normal_axis(axis, a.ndim(), "softmax");
  return apply(make_ref<const SoftmaxOperation>(at), {&a, 1}, {a.shape(), floating(a.dtype())}, on);
}

}  // namespace holdfast
