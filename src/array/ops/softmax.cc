#include <array>

#include "holdfast/array/ops/softmax_kernels.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

// Below this many rows they are cut into pieces, of at least that many elements.
constexpr int64_t kFewSoftmaxRows = 32;
constexpr int64_t kSoftmaxPieceElements = 4096;
constexpr int64_t kMaxSoftmaxPieces = 64;
// Of the kernel for columns, and how many make it worth it.
constexpr int64_t kSoftmaxColumns = 32;
constexpr int64_t kFewColumns = 8;
// The same for many weak threads, which are 32 beside each other.
constexpr int64_t kFewWeakColumns = 16;

class SoftmaxOperation final : public Operation {
 public:
  explicit SoftmaxOperation(size_t axis) : axis_(axis) {}
  std::string_view name() const noexcept override { return "softmax"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    Operand in = encoder.input(0);
    if (in.layout().has_negative_strides()) in = encoder.contiguous(in);
    in = in.with_layout(array::with_axis_last(in.layout(), axis_));
    const Rows rows{.count = in.size() / in.shape().back(),
                    .length = in.shape().back(),
                    .y_step = out.layout().strides[axis_]};
    const bool weak = array::is_many_weak(encoder);
    // The last axis that is kept: whether as many rows lie side by side in x as in y.
    const size_t side = in.shape().size() - 2;
    const bool columns = rows.y_step >= (weak ? kFewWeakColumns : kFewColumns) &&
                         in.layout().strides[side] == 1 && in.shape()[side] % rows.y_step == 0;
    const Call call(encoder, in, out, rows);
    if (columns) {
      weak ? weak_columns(call, rows) : strong_columns(call, rows);
    } else {
      weak ? weak_rows(call, rows) : strong_rows(call, rows);
    }
  }

 private:
  struct Rows {
    int64_t count;
    int64_t length;
    int64_t y_step;
  };

  // What all kernels are given.
  struct Call {
    Encoder& encoder;
    const Operand in;
    const Operand& out;
    const Dtype work;
    const std::array<kernel::Constant, 3> constants;
    const kernel::Param y_step;
    const double steps;

    Call(Encoder& to, const Operand& x, const Operand& y, const Rows& rows)
        : encoder(to),
          in(array::as_bits(x)),
          out(y),
          work(array::accumulator_of(y.dtype())),
          constants{{{"A", work}, {"R", y.dtype()}, {"HALF", array::is_half(x)}}},
          y_step{"y_step", rows.y_step},
          steps(4.0 * static_cast<double>(x.size())) {}  // exponentials are dear

    void launch(const Kernel& kernel, std::span<const Operand> inputs,
                std::span<const Operand> outputs, const kernel::Size3& grid,
                const kernel::Size3& group, std::span<const kernel::Param> params) const {
      encoder.launch(kernel, {.inputs = inputs,
                              .outputs = outputs,
                              .grid = grid,
                              .threadgroup = group,
                              .constants = constants,
                              .params = params,
                              .work_per_thread = array::share_of(steps, grid)});
    }
    // For threads that do not meet.
    void launch(const Kernel& kernel, std::span<const Operand> inputs,
                std::span<const Operand> outputs, const kernel::Size3& grid,
                std::span<const kernel::Param> params) const {
      launch(kernel, inputs, outputs, grid, array::group_of(encoder, grid), params);
    }
  };

  static void strong_columns(const Call& call, const Rows& rows) {
    const kernel::Size3 grid{array::grid_axis(ceil_div(rows.y_step, kSoftmaxColumns), "softmax"),
                             array::grid_axis(rows.count / rows.y_step, "softmax"), 1};
    call.launch(array::softmax_columns_kernel(), {&call.in, 1}, {&call.out, 1}, grid,
                {&call.y_step, 1});
  }

  static void strong_rows(const Call& call, const Rows& rows) {
    kernel::Size3 grid{array::grid_axis(rows.count, "softmax"), 1, 1};
    if (rows.count >= kFewSoftmaxRows || rows.length < 2 * kSoftmaxPieceElements) {
      call.launch(array::softmax_rows_kernel(), {&call.in, 1}, {&call.out, 1}, grid,
                  {&call.y_step, 1});
      return;
    }
    const Pieces pieces(call, rows);
    grid.y = static_cast<uint32_t>(pieces.count);
    call.launch(array::softmax_pieces_kernel(), {&call.in, 1}, pieces.results, grid,
                {&pieces.length, 1});
    call.launch(array::softmax_join_kernel(), pieces.inputs(call), {&call.out, 1}, grid,
                std::array{call.y_step, pieces.length});
  }

  static void weak_columns(const Call& call, const Rows& rows) {
    const auto groups =
        array::weak_groups(rows.count / rows.y_step * ceil_div(rows.y_step, array::kWeakWidth),
                           array::kWeakTile, 1, "softmax");
    call.launch(array::weak_softmax_columns_kernel(), {&call.in, 1}, {&call.out, 1}, groups.grid,
                groups.group, std::array{call.y_step, groups.count});
  }

  static void weak_rows(const Call& call, const Rows& rows) {
    if (rows.count >= array::kWeakGroups || rows.length < 2 * kSoftmaxPieceElements) {
      const auto groups = array::weak_groups(rows.count, array::kWeakLine, 1, "softmax");
      call.launch(
          array::weak_softmax_rows_kernel(), {&call.in, 1}, {&call.out, 1}, groups.grid,
          groups.group,
          std::array{call.y_step, kernel::Param{"piece_length", rows.length}, groups.count});
      return;
    }
    const Pieces pieces(call, rows);
    const auto groups = array::weak_groups(rows.count, array::kWeakLine, pieces.count, "softmax");
    call.launch(array::weak_softmax_pieces_kernel(), {&call.in, 1}, pieces.results, groups.grid,
                groups.group, std::array{pieces.length, groups.count});
    call.launch(array::weak_softmax_join_kernel(), pieces.inputs(call), {&call.out, 1}, groups.grid,
                groups.group, std::array{call.y_step, pieces.length, groups.count});
  }

  // Of long rows, and the memory for what is found in each.
  struct Pieces {
    int64_t count;
    kernel::Param length;
    std::array<Operand, 2> results;

    Pieces(const Call& call, const Rows& rows) : Pieces(call, rows, length_of(rows)) {}
    std::array<Operand, 3> inputs(const Call& call) const {
      return {call.in, results[0], results[1]};
    }

   private:
    Pieces(const Call& call, const Rows& rows, int64_t each)
        : count(ceil_div(rows.length, each)),
          length{"piece_length", each},
          results{call.encoder.scratch({rows.count, count}, call.work),
                  call.encoder.scratch({rows.count, count}, call.work)} {}
    static int64_t length_of(const Rows& rows) {
      return ceil_div(rows.length,
                      std::min<int64_t>(rows.length / kSoftmaxPieceElements, kMaxSoftmaxPieces));
    }
  };

  size_t axis_;
};

}  // namespace

Array softmax(const Array& a, int64_t axis, const On& on) {
  const size_t at = array::normal_axis(axis, a.ndim(), "softmax");
  return apply(make_ref<const SoftmaxOperation>(at), {&a, 1}, {a.shape(), floating(a.dtype())}, on);
}

}  // namespace holdfast
