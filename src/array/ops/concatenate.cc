#include <fmt/format.h>

#include <vector>

#include "holdfast/array/layouts.h"
#include "holdfast/base/error.h"
#include "holdfast/operation.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

class Concatenate final : public Operation {
 public:
  explicit Concatenate(size_t axis) : axis_(axis) {}
  std::string_view name() const noexcept override { return "concatenate"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    Layout part = out.layout();
    for (size_t i = 0; i < encoder.inputs(); ++i) {
      const Operand& in = encoder.input(i);
      part.shape = in.shape();
      if (in.size() > 0) encoder.copy_elements(in, out.with_layout(part));
      part.offset += in.shape()[axis_] * part.strides[axis_];
    }
  }

 private:
  size_t axis_;
};

}  // namespace

Array concatenate(std::span<const Array> arrays, int64_t axis, const On& on) {
  if (arrays.empty()) {
    throw UsageError("concatenate: there are no arrays; give at least one");
  }
  Shape shape = arrays[0].shape();
  const size_t at = array::normal_axis(axis, shape.size(), "concatenate");
  Dtype dtype = arrays[0].dtype();
  for (const Array& next : arrays.subspan(1)) {
    Shape others = next.shape();
    if (others.size() == shape.size()) others[at] = shape[at];
    if (others != shape) {
      throw UsageError(fmt::format(
          "concatenate: shapes {} and {} do not fit; they may differ along axis {} alone",
          to_string(arrays[0].shape()), to_string(next.shape()), at));
    }
    shape[at] += next.shape()[at];
    dtype = promote(dtype, next.dtype());
  }
  std::vector<Array> inputs;
  for (const Array& next : arrays) {
    inputs.push_back(next.dtype() == dtype ? next : astype(next, dtype, on));
  }
  return apply(make_ref<const Concatenate>(at), inputs, {shape, dtype}, on);
}

Array concatenate(std::initializer_list<Array> arrays, int64_t axis, const On& on) {
  return concatenate(std::span<const Array>(arrays.begin(), arrays.size()), axis, on);
}

Array stack(std::span<const Array> arrays, int64_t axis, const On& on) {
  if (arrays.empty()) throw UsageError("stack: there are no arrays; give at least one");
  // Counted in the result, which has an axis more.
  const auto at = static_cast<int64_t>(array::normal_axis(axis, arrays[0].ndim() + 1, "stack"));
  std::vector<Array> parts;
  for (const Array& next : arrays) {
    if (next.shape() != arrays[0].shape()) {
      throw UsageError(
          fmt::format("stack: shapes {} and {} differ; arrays of one shape can be "
                      "stacked",
                      to_string(arrays[0].shape()), to_string(next.shape())));
    }
    parts.push_back(expand_dims(next, {at}));
  }
  return concatenate(parts, at, on);
}

}  // namespace holdfast
