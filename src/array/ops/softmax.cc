#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "holdfast/array/ops/fusible.h"
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
// Weak threads of a threadgroup, at most.
constexpr int64_t kWeakSoftmaxThreads = 512;
// Of short rows: what each thread has, and threads that share a row of several packs at least, as
// memory is read in 32 bytes.
constexpr int64_t kWeakSoftmaxBytes = 128;
constexpr int64_t kFewSoftmaxLanes = 2;
// Of other rows: packs of a thread in registers, of which 64 let this many threads share a
// multiprocessor; and in threadgroup memory, more where a GPU is known to have it. Where more than
// a part of a row would have to be read twice there are more packs, and half as many threads.
constexpr int64_t kWeakSoftmaxPacks = 8;
constexpr int64_t kManySoftmaxPacks = 16;
constexpr int64_t kWeakSoftmaxRegisters = 1024;
constexpr int64_t kKeptSoftmaxPacks = 5;
constexpr int64_t kFewKeptSoftmaxPacks = 1;
constexpr int64_t kMostReadTwice = 4;
// Pieces of a row: each looks at what was found in all of them.
constexpr int64_t kMostWeakSoftmaxPieces = 1024;

class SoftmaxOperation final : public array::RowOperation {
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
  std::optional<array::RowStep> row_step(const Shape& input, Dtype dtype,
                                         std::string& why) const override {
    if (axis_ + 1 != input.size()) {
      why = "it is along another axis than the last";
      return {};
    }
    return array::RowStep{array::RowKind::softmax, array::accumulator_of(floating(dtype))};
  }
  std::vector<Shape> output_shapes(std::span<const Shape> inputs,
                                   std::span<const Shape> /*before*/) const override {
    return {inputs[0]};
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
                const kernel::Size3& group, std::span<const kernel::Param> params,
                std::span<const kernel::Constant> more = {}) const {
      std::vector<kernel::Constant> all(constants.begin(), constants.end());
      all.insert(all.end(), more.begin(), more.end());
      encoder.launch(kernel, {.inputs = inputs,
                              .outputs = outputs,
                              .grid = grid,
                              .threadgroup = group,
                              .constants = all,
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
    const Pieces pieces(call, rows, kMaxSoftmaxPieces);
    grid.y = static_cast<uint32_t>(pieces.count);
    call.launch(array::softmax_pieces_kernel(), {&call.in, 1}, pieces.results, grid,
                {&pieces.length, 1});
    call.launch(array::softmax_join_kernel(), pieces.inputs(call), {&call.out, 1}, grid,
                std::array{call.y_step, pieces.length});
  }

  static void weak_columns(const Call& call, const Rows& rows) {
    const int64_t height = most_weak_threads(call.encoder) / array::kWeakWidth;
    const auto groups =
        array::weak_groups(rows.count / rows.y_step * ceil_div(rows.y_step, array::kWeakWidth),
                           {array::kWeakWidth, static_cast<uint32_t>(height), 1}, 1, "softmax");
    call.launch(array::weak_softmax_columns_kernel(), {&call.in, 1}, {&call.out, 1}, groups.grid,
                groups.group, std::array{call.y_step, groups.count},
                std::array{kernel::Constant{"HEIGHT", height}});
  }

  static int64_t most_weak_threads(const Encoder& encoder) {
    return std::min<int64_t>(encoder.device().max_group_threads, kWeakSoftmaxThreads);
  }
  // How weak threads share a row, or a piece of one, of so many elements.
  struct Lanes {
    bool dense;
    int64_t vector;
    bool is_short;
    int64_t lanes;
    int64_t packs;
    int64_t kept = 0;
    bool again = false;
    int64_t together = 1;

    Lanes(const Call& call, const Rows& rows, int64_t length)
        : dense(call.in.layout().strides.back() == 1 && rows.y_step == 1),
          vector(dense ? array::kPackBytes /
                             static_cast<int64_t>(std::max(size_of(call.in.dtype()).value,
                                                           size_of(call.out.dtype()).value))
                       : 1) {
      // A row that begins anywhere has one pack more.
      const int64_t all = ceil_div(length % vector == 0 ? length : length + vector - 1, vector);
      const auto bytes = static_cast<int64_t>(size_of(call.work).value);
      const int64_t most = kWeakSoftmaxBytes / bytes / vector;
      is_short = all <= array::kWeakWidth * most;
      if (is_short) {
        lanes = std::clamp(power_above(ceil_div(all, most / 2)),
                           std::min(power_above(all), kFewSoftmaxLanes), array::kWeakWidth);
        packs = std::min(most, power_above(ceil_div(all, lanes)));
        return;
      }
      const bool is_cuda = call.encoder.device().module_form == hal::ModuleForm::cuda;
      const int64_t own = dense ? kWeakSoftmaxPacks : most;
      lanes = std::clamp(power_above(ceil_div(all, own)), 2 * array::kWeakWidth,
                         most_weak_threads(call.encoder));
      const int64_t each = ceil_div(all, lanes);
      packs = std::min(own, power_above(each));
      const int64_t room = is_cuda ? kKeptSoftmaxPacks : kFewKeptSoftmaxPacks;
      if (dense && (each - packs - room) * kMostReadTwice > each) packs = kManySoftmaxPacks;
      if (dense) kept = std::clamp<int64_t>(each - packs, 0, room);
      again = each > packs + kept;
      together = std::max(kWeakSoftmaxRegisters / lanes / (packs > own ? 2 : 1), int64_t{1});
    }
    std::vector<kernel::Constant> constants(const Call& call) const {
      const Shape& shape = call.in.shape();
      const bool even = call.in.size() == shape[shape.size() - 2] * shape.back();
      return {{"LANES", lanes},
              {"PACKS", packs},
              {"VECTOR", vector},
              {"DENSE", dense},
              {"EVEN", even},
              {"KEPT", kept},
              {"AGAIN", again},
              {"X", call.in.dtype()},
              {"POWERS", call.in.dtype() == call.work && kept == 0 && !again},
              {"GROUPS", together}};
    }
    array::WeakGroups groups(const Rows& rows, int64_t pieces) const {
      const int64_t threads = is_short ? int64_t{array::kWeakGroup} : lanes;
      return array::weak_groups(ceil_div(rows.count, threads / lanes),
                                {static_cast<uint32_t>(threads), 1, 1}, pieces, "softmax");
    }

   private:
    static int64_t power_above(int64_t of) {
      return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(of)));
    }
  };

  static void weak_rows(const Call& call, const Rows& rows) {
    if (rows.count >= array::kWeakGroups || rows.length < 2 * kSoftmaxPieceElements) {
      const Lanes lanes(call, rows, rows.length);
      const auto groups = lanes.groups(rows, 1);
      const kernel::Param param = lanes.is_short ? kernel::Param{"rows", rows.count}
                                                 : kernel::Param{"piece_length", rows.length};
      call.launch(lanes.is_short ? array::weak_softmax_short_rows_kernel()
                                 : array::weak_softmax_rows_kernel(),
                  {&call.in, 1}, {&call.out, 1}, groups.grid, groups.group,
                  std::array{call.y_step, param, groups.count}, lanes.constants(call));
      return;
    }
    const Pieces pieces(call, rows, kMostWeakSoftmaxPieces);
    const Lanes lanes(call, rows, pieces.each);
    const auto groups = lanes.groups(rows, pieces.count);
    call.launch(array::weak_softmax_pieces_kernel(), {&call.in, 1}, pieces.results, groups.grid,
                groups.group, std::array{pieces.length, groups.count}, lanes.constants(call));
    call.launch(array::weak_softmax_join_kernel(), pieces.inputs(call), {&call.out, 1}, groups.grid,
                groups.group, std::array{call.y_step, pieces.length, groups.count},
                lanes.constants(call));
  }

  // Of long rows, and the memory for what is found in each.
  struct Pieces {
    int64_t each;
    int64_t count;
    kernel::Param length;
    std::array<Operand, 2> results;

    Pieces(const Call& call, const Rows& rows, int64_t most)
        : each(ceil_div(rows.length, std::min(rows.length / kSoftmaxPieceElements, most))),
          count(ceil_div(rows.length, each)),
          length{"piece_length", each},
          results{call.encoder.scratch({rows.count, count}, call.work),
                  call.encoder.scratch({rows.count, count}, call.work)} {}
    std::array<Operand, 3> inputs(const Call& call) const {
      return {call.in, results[0], results[1]};
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
