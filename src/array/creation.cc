#include "holdfast/creation.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "holdfast/array/scalars.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/operation.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

class Full final : public Operation {
 public:
  explicit Full(const kernel::Scalar& value) : value_(value) {}
  std::string_view name() const noexcept override { return "full"; }
  void record(Encoder& encoder) const override { encoder.fill_elements(encoder.output(0), value_); }

 private:
  kernel::Scalar value_;
};

// Integers: exactly. Floats: start + i * step, computed once for each element.
class Arange final : public Operation {
 public:
  Arange(double start, double step) : start_(start), step_(step) {}
  std::string_view name() const noexcept override { return "arange"; }
  void record(Encoder& encoder) const override {
    static const NeverDestroyed<Kernel> kernel(
        kernel::Definition{.name = "arange", .outputs = {"y"}, .source = R"(
uint i = thread_position_in_grid.x;
y[i] = T(start + W(i) * step);
)"});
    const Operand& y = encoder.output(0);
    if (y.size() == 0) return;
    const bool wide = y.dtype() == Dtype::float64;
    const Dtype work = !is_floating(y.dtype()) ? Dtype::int64
                       : wide                  ? Dtype::float64
                                               : Dtype::float32;
    const std::array outputs{y};
    const std::array constants{kernel::Constant{"T", y.dtype()}, kernel::Constant{"W", work}};
    const std::array params{kernel::Param{"start", array::scalar_of(start_, work)},
                            kernel::Param{"step", array::scalar_of(step_, work)}};
    encoder.launch(kernel, {.outputs = outputs,
                            .grid = {static_cast<uint32_t>(y.size()), 1, 1},
                            .threadgroup = {256, 1, 1},
                            .constants = constants,
                            .params = params});
  }

 private:
  double start_;
  double step_;
};

}  // namespace

Array full(const Shape& shape, double value, Dtype dtype, const On& on) {
  return apply(make_ref<const Full>(array::scalar_of(value, dtype)), {}, {shape, dtype}, on);
}
Array zeros(const Shape& shape, Dtype dtype, const On& on) { return full(shape, 0, dtype, on); }
Array ones(const Shape& shape, Dtype dtype, const On& on) { return full(shape, 1, dtype, on); }
Array zeros_like(const Array& array, const On& on) {
  return zeros(array.shape(), array.dtype(), on.state() ? on : On(array.stream()));
}
Array ones_like(const Array& array, const On& on) {
  return ones(array.shape(), array.dtype(), on.state() ? on : On(array.stream()));
}

Array arange(double start, double stop, double step, Dtype dtype, const On& on) {
  const double count = std::ceil((stop - start) / step);
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step) ||
      count > INT32_MAX) {
    throw UsageError(fmt::format("arange({}, {}, {}): {}", start, stop, step,
                                 step == 0 ? "a step of zero" : "not a range that fits in memory"));
  }
  const auto length = static_cast<int64_t>(std::max(count, 0.0));
  if (!is_floating(dtype) && length > 0) {
    // Both ends exist, so all between them do.
    (void)array::scalar_of(start, dtype);
    (void)array::scalar_of(step, Dtype::int64);
    (void)array::scalar_of(start + step * static_cast<double>(length - 1), dtype);
  }
  return apply(make_ref<const Arange>(start, step), {}, {{length}, dtype}, on);
}

Array arange(int64_t stop, Dtype dtype, const On& on) {
  return arange(0.0, static_cast<double>(stop), 1.0, dtype, on);
}

Array eye(int64_t n, Dtype dtype, const On& on) {
  // Made as one row first; its length must not wrap around.
  if (n < 0 || n > INT32_MAX) {
    throw UsageError(fmt::format("eye({}): a matrix of as many rows cannot be made", n));
  }
  const Array zero = zeros({n * n}, dtype, on);
  if (n == 0) return reshape(zero, {0, 0}, on);
  return reshape(slice_update(zero, ones({n}, dtype, on), {{.step = n + 1}}, on), {n, n}, on);
}

}  // namespace holdfast
