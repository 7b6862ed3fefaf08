#include <array>
#include <bit>
#include <span>
#include <utility>

#include "holdfast/array/apply.h"
#include "holdfast/array/ops/positions.h"
#include "holdfast/array/ops/scatter_kernels.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

// Fewer are not worth the kernels that find which of them meet.
constexpr int64_t kFewPositions = 8;

class ScatterUpdates final : public Operation {
 public:
  ScatterUpdates(size_t axis, bool along, Update how) : axis_(axis), along_(along), how_(how) {}
  std::string_view name() const noexcept override {
    return along_ ? "scatter_along_axis" : "scatter";
  }
  bool takes_inputs() const noexcept override { return true; }
  void record(Encoder& encoder) const override {
    const Operand indices = array::with_dimension(encoder.contiguous(encoder.input(1)));
    const Operand updates = array::with_dimension(encoder.contiguous(encoder.input(2)));
    const Operand& y = encoder.take(0, 0);
    if (y.size() == 0 || updates.size() == 0) return;
    int64_t outer = 1;
    int64_t inner = 1;
    for (size_t i = 0; i < axis_; ++i) outer *= y.shape()[i];
    for (size_t i = axis_ + 1; i < y.shape().size(); ++i) inner *= y.shape()[i];
    const Sizes sizes{outer, y.shape()[axis_], inner, updates.size() / outer / inner};
    const bool weak = array::is_many_weak(encoder) && !along_ && sizes.positions > kFewPositions &&
                      array::PackedRows::fit(sizes.positions * outer, inner);
    if (!weak) return each(encoder, indices, updates, y, sizes);
    how_ == Update::set ? set_last(encoder, indices, updates, y, sizes)
                        : update_sorted(encoder, indices, updates, y, sizes);
  }

 private:
  struct Sizes {
    int64_t outer;
    int64_t n;
    int64_t inner;
    int64_t positions;
  };

  void each(Encoder& encoder, const Operand& indices, const Operand& updates, const Operand& y,
            const Sizes& sizes) const {
    const char* const what = along_ ? "scatter_along_axis" : "scatter";
    const kernel::Size3 grid{array::grid_axis(sizes.inner, what),
                             array::grid_axis(sizes.outer, what), 1};
    encoder.launch(
        array::scatter_kernel(),
        {.inputs = std::array{indices, updates},
         .in_place = {&y, 1},
         .grid = grid,
         .threadgroup = array::group_of(encoder, grid),
         .constants = std::array<kernel::Constant, 4>{{{"T", y.dtype()},
                                                       {"I", indices.dtype()},
                                                       {"ALONG", along_},
                                                       {"HOW", static_cast<int64_t>(how_)}}},
         .params = std::array{kernel::Param{"n", kernel::Scalar(sizes.n)},
                              kernel::Param{"positions", kernel::Scalar(sizes.positions)}},
         .work_per_thread = array::share_of(static_cast<double>(updates.size()), grid)});
  }

  // What kernels for many weak threads are given.
  struct Params {
    kernel::Param n;
    kernel::Param positions;

    explicit Params(const Sizes& sizes)
        : n{"n", static_cast<uint32_t>(sizes.n)},
          positions{"positions", static_cast<uint32_t>(sizes.positions)} {}
  };
  // A launch of which each thread has a part of a row of updates.
  static void launch_rows(Encoder& encoder, const Kernel& kernel, std::span<const Operand> inputs,
                          const Operand& y, const Sizes& sizes, const kernel::Constant& constant,
                          int64_t most_packs) {
    const int64_t rows = sizes.outer * sizes.positions;
    const array::PackedRows packed(rows, sizes.inner, sizes.inner,
                                   static_cast<int64_t>(size_of(y.dtype()).value), most_packs);
    const Params params(sizes);
    encoder.launch(
        kernel,
        {.inputs = inputs,
         .in_place = {&y, 1},
         .grid = packed.grid,
         .threadgroup = array::group_of(encoder, packed.grid),
         .constants =
             std::array<kernel::Constant, 3>{
                 {constant, {"VECTOR", packed.vector}, {"PACKS", packed.packs}}},
         .params = std::array<kernel::Param, 5>{{params.n,
                                                 params.positions,
                                                 {"inner", static_cast<uint32_t>(sizes.inner)},
                                                 {"rows", static_cast<uint32_t>(rows)},
                                                 {"rows_y", packed.rows_y}}}});
  }

  static void set_last(Encoder& encoder, const Operand& indices, const Operand& updates,
                       const Operand& y, const Sizes& sizes) {
    const Operand last = encoder.scratch({sizes.n}, Dtype::int32);
    encoder.fill(last, std::byte{0xff});
    const Params params(sizes);
    const kernel::Constant index{"I", indices.dtype()};
    const kernel::Size3 grid{static_cast<uint32_t>(sizes.positions), 1, 1};
    encoder.launch(array::weak_scatter_last_kernel(),
                   {.inputs = {&indices, 1},
                    .outputs = {&last, 1},
                    .grid = grid,
                    .threadgroup = array::group_of(encoder, grid),
                    .constants = {&index, 1},
                    .params = {&params.n, 1}});
    launch_rows(encoder, array::weak_scatter_set_kernel(), std::array{indices, updates, last}, y,
                sizes, index, 4);
  }

  // Numbers of rows, and the positions that have them.
  struct Sorted {
    Operand keys;
    Operand orders;
  };
  static Sorted sorted(Encoder& encoder, const Operand& indices, const Sizes& sizes) {
    const int64_t blocks = ceil_div(sizes.positions, array::kSortBlock);
    const Operand table = encoder.scratch({array::kSortDigits, blocks}, Dtype::uint32);
    const Operand totals = encoder.scratch({array::kSortDigits}, Dtype::uint32);
    const auto digits = array::weak_groups(array::kSortDigits, array::kWeakLine, 1, "scatter");
    const auto groups = array::weak_groups(blocks, array::kWeakLine, 1, "scatter");
    const auto made = [&] { return encoder.scratch({sizes.positions}, Dtype::uint32); };
    Sorted from{indices, indices};
    Sorted to{made(), made()};
    const int bits = std::bit_width(static_cast<uint32_t>(sizes.n));
    for (int shift = 0; shift < bits; shift += array::kSortBits) {
      const std::array<kernel::Constant, 2> constants{
          {{"I", from.keys.dtype()}, {"FIRST", shift == 0}}};
      const Params all(sizes);
      const std::array<kernel::Param, 4> params{
          {all.n, all.positions, {"shift", static_cast<uint32_t>(shift)}, groups.count}};
      encoder.launch(array::weak_scatter_count_kernel(), {.inputs = {&from.keys, 1},
                                                          .outputs = {&table, 1},
                                                          .grid = groups.grid,
                                                          .threadgroup = groups.group,
                                                          .constants = constants,
                                                          .params = params});
      encoder.launch(array::weak_scatter_scan_kernel(),
                     {.outputs = {&totals, 1},
                      .in_place = {&table, 1},
                      .grid = digits.grid,
                      .threadgroup = digits.group,
                      .params = std::array{kernel::Param{"blocks", static_cast<uint32_t>(blocks)},
                                           digits.count}});
      encoder.launch(array::weak_scatter_sort_kernel(),
                     {.inputs = std::array{from.keys, from.orders, table, totals},
                      .outputs = std::array{to.keys, to.orders},
                      .grid = groups.grid,
                      .threadgroup = groups.group,
                      .constants = constants,
                      .params = params});
      from =
          std::exchange(to, shift == 0 && bits > array::kSortBits ? Sorted{made(), made()} : from);
    }
    return from;
  }
  void update_sorted(Encoder& encoder, const Operand& indices, const Operand& updates,
                     const Operand& y, const Sizes& sizes) const {
    const Sorted rows = sorted(encoder, indices, sizes);
    launch_rows(encoder, array::weak_scatter_sorted_kernel(),
                std::array{rows.keys, rows.orders, updates}, y, sizes,
                {"HOW", static_cast<int64_t>(how_)}, 2);
  }

  size_t axis_;
  bool along_;
  Update how_;
};

Array scattered(Array a, const Array& indices, const Array& updates, const Shape& shape,
                Ref<const Operation> operation, const On& on) {
  const OutputType type{a.shape(), a.dtype()};
  const Array fitted = broadcast_to(astype(updates, a.dtype(), on), shape);
  array::NodeInputs inputs;
  inputs.push_back(std::move(a));
  inputs.push_back(indices);
  inputs.push_back(fitted);
  return array::apply(std::move(operation), std::move(inputs), type, on);
}

}  // namespace

Array scatter(Array a, const Array& indices, const Array& updates, int64_t axis, Update how,
              const On& on) {
  array::check_positions(indices, "scatter");
  const size_t at = array::normal_axis(axis, a.ndim(), "scatter");
  const Shape shape = array::shape_at_positions(a.shape(), at, indices.shape());
  return scattered(std::move(a), indices, updates, shape,
                   make_ref<const ScatterUpdates>(at, false, how), on);
}

Array scatter_along_axis(Array a, const Array& indices, const Array& updates, int64_t axis,
                         Update how, const On& on) {
  array::check_positions(indices, "scatter_along_axis");
  const size_t at = array::normal_axis(axis, a.ndim(), "scatter_along_axis");
  array::check_along(a.shape(), indices.shape(), at, "scatter_along_axis");
  return scattered(std::move(a), indices, updates, indices.shape(),
                   make_ref<const ScatterUpdates>(at, true, how), on);
}

}  // namespace holdfast
