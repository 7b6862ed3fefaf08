#include <array>
#include <string>
#include <utility>

#include "holdfast/array/apply.h"
#include "holdfast/array/ops/positions.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

// A thread has all positions of one place beside the axis, so that no two threads meet and the
// order of updates is that of positions, whichever way threads run.
const Kernel& scatter_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "scatter",
                                                                .inputs = {"indices", "updates"},
                                                                .in_place = {"y"},
                                                                .source = std::string(R"(
const long inner = thread_position_in_grid.x;
const long inners = threads_per_grid.x;
const long outer = thread_position_in_grid.y;
for (long p = 0; p < positions; ++p) {
  const long from = (outer * positions + p) * inners + inner;
#if ALONG
  const I given = indices[from];
#else
  const I given = indices[p];
#endif
)") + array::kPositionText +
                                                                          R"(
  if (!inside) continue;
  const long to = (outer * n + at) * inners + inner;
  const T update = updates[from];
#if HOW == 0
  y[to] = update;
#elif HOW == 1
  y[to] = T(y[to] + update);
#elif HOW == 2
  y[to] = T(y[to] * update);
#elif HOW == 3
  const T before = y[to];
  if (update > before || update != update) y[to] = update;
#else
  const T before = y[to];
  if (update < before || update != update) y[to] = update;
#endif
}
)"});
  return kernel;
}

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
    const int64_t positions = updates.size() / outer / inner;
    const char* const what = along_ ? "scatter_along_axis" : "scatter";
    const kernel::Size3 grid{array::grid_axis(inner, what), array::grid_axis(outer, what), 1};
    encoder.launch(
        scatter_kernel(),
        {.inputs = std::array{indices, updates},
         .in_place = {&y, 1},
         .grid = grid,
         .threadgroup = array::group_of(encoder, grid),
         .constants = std::array<kernel::Constant, 4>{{{"T", y.dtype()},
                                                       {"I", indices.dtype()},
                                                       {"ALONG", along_},
                                                       {"HOW", static_cast<int64_t>(how_)}}},
         .params = std::array{kernel::Param{"n", kernel::Scalar(y.shape()[axis_])},
                              kernel::Param{"positions", kernel::Scalar(positions)}},
         .work_per_thread = array::share_of(static_cast<double>(updates.size()), grid)});
  }

 private:
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
