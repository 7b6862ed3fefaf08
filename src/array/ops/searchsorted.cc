#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "holdfast/array/ops/sort_kernels.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/base/error.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/ops.h"
#include "holdfast/sorting.h"

namespace holdfast {
namespace {

const Kernel& search_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "searchsorted",
                                                                .inputs = {"sorted", "values"},
                                                                .outputs = {"y"},
                                                                .source = R"(
const ulong i = ulong(thread_position_in_grid.y) * threads_per_grid.x + thread_position_in_grid.x;
if (i < ulong(count)) {
  const K key = key_of<true>(values[i], kind, mantissa);
  uint low = 0;
  uint high = uint(length);
  while (low < high) {
    const uint middle = low + (high - low) / 2;
    const K other = key_of<true>(sorted[middle * step], kind, mantissa);
    if (right ? other <= key : other < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  y[i] = low;
}
)",
                                                                .header = array::kKeyText});
  return kernel;
}

class SearchOperation final : public Operation {
 public:
  explicit SearchOperation(Side side) : side_(side) {}
  std::string_view name() const noexcept override { return "searchsorted"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    Operand sorted = encoder.input(0);
    if (sorted.size() == 0) return encoder.fill(out, std::byte{0});
    if (sorted.layout().has_negative_strides()) sorted = encoder.contiguous(sorted);
    const Operand values = array::with_dimension(encoder.contiguous(encoder.input(1)));
    const int64_t wide = std::min<int64_t>(out.size(), int64_t{1} << 30);
    const kernel::Size3 grid{static_cast<uint32_t>(wide),
                             array::grid_axis(ceil_div(out.size(), wide), "searchsorted"), 1};
    const std::array constants{kernel::Constant{"K", array::key_type(sorted.dtype())}};
    const auto key = array::key_params(sorted.dtype());
    encoder.launch(search_kernel(),
                   {.inputs = std::array{array::as_keys(sorted), array::as_keys(values)},
                    .outputs = {&out, 1},
                    .grid = grid,
                    .threadgroup = array::group_of(encoder, grid),
                    .constants = constants,
                    .params = std::array<kernel::Param, 6>{{key[0],
                                                            key[1],
                                                            {"right", side_ == Side::right},
                                                            {"count", out.size()},
                                                            {"length", sorted.size()},
                                                            {"step", sorted.layout().strides[0]}}},
                    .work_per_thread = 32});
  }

 private:
  Side side_;
};

}  // namespace

Array searchsorted(const Array& sorted, const Array& values, Side side, const On& on) {
  if (sorted.ndim() != 1) {
    throw UsageError(fmt::format(
        "searchsorted: the sorted array has the shape {}; it must have one axis, so flatten it or "
        "search its rows one by one",
        to_string(sorted.shape())));
  }
  const Dtype dtype = promote(sorted.dtype(), values.dtype());
  const std::array inputs{astype(sorted, dtype, on), astype(values, dtype, on)};
  return apply(make_ref<const SearchOperation>(side), inputs, {values.shape(), Dtype::uint32}, on);
}

}  // namespace holdfast
