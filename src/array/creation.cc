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

class Linspace final : public Operation {
 public:
  Linspace(double start, double stop, double steps) : start_(start), stop_(stop), steps_(steps) {}
  std::string_view name() const noexcept override { return "linspace"; }
  void record(Encoder& encoder) const override {
    // The last one is the stop itself, whatever the product rounds to.
    static const NeverDestroyed<Kernel> kernel(
        kernel::Definition{.name = "linspace", .outputs = {"y"}, .source = R"(
const uint i = thread_position_in_grid.x;
const double v = double(i) == steps ? stop : start + double(i) * ((stop - start) / steps);
y[i] = T(T(1.5f) == T(1) ? metal::floor(v) : v);
)"});
    const Operand& y = encoder.output(0);
    if (y.size() == 0) return;
    const auto number = [](const char* name, double v) {
      return kernel::Param{name, kernel::Scalar::of_float64(v)};
    };
    const std::array outputs{y};
    const std::array constants{kernel::Constant{"T", y.dtype()}};
    const std::array params{number("start", start_), number("stop", stop_),
                            number("steps", steps_)};
    encoder.launch(kernel, {.outputs = outputs,
                            .grid = {static_cast<uint32_t>(y.size()), 1, 1},
                            .threadgroup = {256, 1, 1},
                            .constants = constants,
                            .params = params});
  }

 private:
  double start_;
  double stop_;
  double steps_;
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

Array linspace(double start, double stop, int64_t count, Dtype dtype, bool endpoint, const On& on) {
  if (count < 0 || count > kMaxLength || !std::isfinite(start) || !std::isfinite(stop)) {
    throw UsageError(fmt::format("linspace({}, {}, {}): {}", start, stop, count,
                                 count < 0            ? "a negative count; give at least 0"
                                 : count > kMaxLength ? "more numbers than an axis can have"
                                                      : "no finite range; give finite ends"));
  }
  if (!is_floating(dtype) && count > 0) {
    // Both ends exist, so all between them do.
    (void)array::scalar_of(std::floor(start), dtype);
    (void)array::scalar_of(std::floor(stop), dtype);
  }
  // One number has no distance; it is the start.
  const int64_t steps = std::max<int64_t>(endpoint ? count - 1 : count, 1);
  return apply(make_ref<const Linspace>(start, stop, static_cast<double>(steps)), {},
               {{count}, dtype}, on);
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

namespace {

// Whether elements at (row, column) stay: `column - row` is compared with k.
template <typename Compare>
Array triangle(const Array& array, const Compare& stays, const char* what, const On& on) {
  if (array.ndim() < 2) {
    throw UsageError(fmt::format("{}: an array of shape {} has no matrices; give it two axes", what,
                                 to_string(array.shape())));
  }
  const On beside = on.state() ? on : On(array.stream());
  const Array rows = arange(array.shape(-2), int32, beside);
  const Array columns = arange(array.shape(-1), int32, beside);
  const Array apart = subtract(columns, expand_dims(rows, {1}), on);
  // `false` has the lowest kind: the result keeps the array's dtype.
  return where(stays(apart, on), array, false, on);
}

}  // namespace

Array tril(const Array& array, int64_t k, const On& on) {
  return triangle(
      array, [k](const Array& apart, const On& to) { return less_equal(apart, k, to); }, "tril",
      on);
}
Array triu(const Array& array, int64_t k, const On& on) {
  return triangle(
      array, [k](const Array& apart, const On& to) { return greater_equal(apart, k, to); }, "triu",
      on);
}

}  // namespace holdfast
