#include "holdfast/scans.h"

#include <algorithm>
#include <array>
#include <vector>

#include "holdfast/array/ops/scan_kernels.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

// Below this many threads the axis is cut into pieces, of at least that many elements.
constexpr int64_t kFewScanThreads = 32;
constexpr int64_t kScanPieceElements = 8192;
constexpr int64_t kMaxScanPieces = 64;
// Rows of a strong thread, and how many make it worth it.
constexpr int64_t kScanWide = 32;
constexpr int64_t kFewScanColumns = 8;
// A shorter row is one thread's, weak or strong.
constexpr int64_t kFewScanned = 32;

struct ScanStep {
  bool product;
  bool reverse;
  bool exclusive;
  Dtype accumulator;
};

// How one call is cut.
struct ScanCut {
  int64_t rows;
  int64_t length;
  int64_t inner;  // how far apart elements of a row lie in the result
  bool weak;      // threads of a group share a row
  int64_t wide;   // rows of a thread
  kernel::Size3 grid{};
  int64_t pieces = 1;
  int64_t piece_length;

  // `in` has the axis last.
  ScanCut(const Encoder& encoder, const Operand& in, int64_t inner_of)
      : rows(in.size() / in.shape().back()),
        length(in.shape().back()),
        inner(inner_of),
        weak(array::is_many_weak(encoder)),
        wide(1),
        piece_length(length) {
    // The last axis that is kept: whether as many rows lie side by side in x as in y.
    const size_t side = in.shape().size() - 2;
    const bool columns =
        inner >= kFewScanColumns && in.layout().strides[side] == 1 && in.shape()[side] % inner == 0;
    const bool many_weak = weak;
    if (columns && !weak) wide = kScanWide;
    if (columns || length < kFewScanned) weak = false;
    const int64_t threads = wide == 1 ? rows : rows / inner * ceil_div(inner, wide);
    if (threads < (many_weak ? array::kWeakGroups : kFewScanThreads)) {
      const int64_t most = many_weak ? array::kWeakGroups : kMaxScanPieces;
      const int64_t least = std::max<int64_t>(kScanPieceElements / wide, 1);
      pieces = std::clamp<int64_t>(length / least, 1, most);
      piece_length = ceil_div(length, pieces);
      pieces = ceil_div(length, piece_length);
    }
  }

  void launch(Encoder& encoder, const Kernel& kernel, const Kernel& weak_kernel,
              std::span<const Operand> inputs, const Operand& to, const ScanStep& step,
              bool is_half, bool is_totals) const {
    const char* const what = step.product ? "cumprod" : "cumsum";
    std::vector<kernel::Constant> constants{
        {"A", step.accumulator}, {"R", to.dtype()}, {"HALF", is_half}, {"PRODUCT", step.product}};
    std::vector<kernel::Param> params{{"length", length},
                                      {"piece_length", piece_length},
                                      {"pieces", pieces},
                                      {"reverse", step.reverse}};
    if (!is_totals || !weak) params.push_back({"inner", inner});
    if (!is_totals) params.push_back({"exclusive", step.exclusive});
    kernel::Size3 cut{1, 1, static_cast<uint32_t>(pieces)};
    kernel::Size3 group;
    if (weak) {
      const auto groups = array::weak_groups(rows, array::kWeakLine, pieces, what);
      params.push_back(groups.count);
      cut = groups.grid;
      group = groups.group;
    } else {
      constants.push_back({"WIDE", wide});
      cut.x = array::grid_axis(wide == 1 ? rows : ceil_div(inner, wide), what);
      cut.y = array::grid_axis(wide == 1 ? 1 : rows / inner, what);
      group = array::group_of(encoder, cut);
    }
    encoder.launch(weak ? weak_kernel : kernel,
                   {.inputs = inputs,
                    .outputs = {&to, 1},
                    .grid = cut,
                    .threadgroup = group,
                    .constants = constants,
                    .params = params,
                    .work_per_thread = array::share_of(
                        2.0 * static_cast<double>(rows) * static_cast<double>(length), cut)});
  }
};

// `in` has no negative strides.
void record_scan(Encoder& encoder, const Operand& in, size_t axis, const Operand& out,
                 const ScanStep& step) {
  const Operand x = array::as_bits(in).with_layout(array::with_axis_last(in.layout(), axis));
  const bool is_half = array::is_half(in);
  const ScanCut cut(encoder, x, out.layout().strides[axis]);
  if (cut.pieces == 1) {
    cut.launch(encoder, array::scan_kernel(false), array::weak_scan_kernel(false), {&x, 1}, out,
               step, is_half, /*is_totals=*/false);
    return;
  }
  // What stands before each piece: a scan of what pieces come to.
  const Operand totals = encoder.scratch({cut.rows, cut.pieces}, step.accumulator);
  cut.launch(encoder, array::scan_totals_kernel(), array::weak_scan_totals_kernel(), {&x, 1},
             totals, step, is_half, /*is_totals=*/true);
  const Operand starts = encoder.scratch({cut.rows, cut.pieces}, step.accumulator);
  record_scan(encoder, totals, 1, starts,
              {step.product, /*reverse=*/false, /*exclusive=*/true, step.accumulator});
  cut.launch(encoder, array::scan_kernel(true), array::weak_scan_kernel(true),
             std::array{x, starts}, out, step, is_half, /*is_totals=*/false);
}

class ScanOperation final : public Operation {
 public:
  ScanOperation(size_t axis, const ScanStep& step) : axis_(axis), step_(step) {}
  std::string_view name() const noexcept override { return step_.product ? "cumprod" : "cumsum"; }
  std::vector<Shape> output_shapes(std::span<const Shape> inputs,
                                   std::span<const Shape> /*before*/) const override {
    return {inputs[0]};
  }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    Operand in = encoder.input(0);
    if (in.layout().has_negative_strides()) in = encoder.contiguous(in);
    record_scan(encoder, in, axis_, out, step_);
  }

 private:
  size_t axis_;
  ScanStep step_;
};

Array scan(const Array& a, std::optional<int64_t> axis, const Scan& how, bool product,
           const On& on) {
  const Array of = axis ? a : reshape(a, {a.size()}, on);
  const size_t at = array::normal_axis(axis.value_or(0), of.ndim(), product ? "cumprod" : "cumsum");
  const Dtype dtype = a.dtype();
  const bool wide = size_of(dtype) == Bytes(8);
  ScanStep step{product, how.reverse, !how.inclusive, dtype};
  Dtype result = dtype;
  if (is_floating(dtype)) {
    step.accumulator = array::accumulator_of(dtype);
  } else {
    // Integers wrap around, which C++ has for unsigned ones alone.
    step.accumulator = wide ? Dtype::uint64 : Dtype::uint32;
    if (size_of(dtype) < Bytes(4)) {
      result = is_unsigned_integer(dtype) ? Dtype::uint32 : Dtype::int32;
    }
  }
  return apply(make_ref<const ScanOperation>(at, step), {&of, 1}, {of.shape(), result}, on);
}

}  // namespace

Array cumsum(const Array& a, std::optional<int64_t> axis, const Scan& how, const On& on) {
  return scan(a, axis, how, /*product=*/false, on);
}
Array cumprod(const Array& a, std::optional<int64_t> axis, const Scan& how, const On& on) {
  return scan(a, axis, how, /*product=*/true, on);
}

}  // namespace holdfast
