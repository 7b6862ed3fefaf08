#include "holdfast/views.h"
#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

using Unary = Array (*)(const Array&, const On&);
using Binary = Array (*)(const Term&, const Term&, const On&);
using Reduction = Array (*)(const Array&, const Reduce&, const On&);

// Adds operations, each in one line. Those that are methods of arrays, too, say so.
class Table {
 public:
  Table(nb::module_& m, ArrayClass& c) : m_(m), c_(c) {}

  void unary(const char* name, Unary f, const char* doc, bool method = false) {
    const auto call = [f](const ArrayLike& a, const On& on) { return f(a.array(on), on); };
    m_.def(name, call, "a"_a, nb::kw_only(), "stream"_a = nb::none(), doc);
    if (method) {
      c_.def(
          name, [f](const Array& a, const On& on) { return f(a, on); }, nb::kw_only(),
          "stream"_a = nb::none(), doc);
    }
  }

  void binary(const char* name, Binary f, const char* doc) {
    const auto call = [f](const ArrayLike& a, const ArrayLike& b, const On& on) {
      const Term left = a.term(on, b);
      Term right = b.term(on, a);
      if (left.kind() != Term::Kind::array && right.kind() != Term::Kind::array) {
        right = Term(b.array(on));
      }
      return f(left, right, on);
    };
    m_.def(name, call, "a"_a, "b"_a, nb::kw_only(), "stream"_a = nb::none(), doc);
  }

  void reduction(const char* name, Reduction f, const char* doc) {
    const auto reduce = [f](const Array& a, const Axes& axis, bool keepdims, const On& on) {
      // No axes at all is not the same as all of them.
      if (axis.values && axis.values->empty()) return a;
      return f(a, {.axes = axis.values.value_or(std::vector<int64_t>()), .keep_dims = keepdims},
               on);
    };
    m_.def(
        name,
        [reduce](const ArrayLike& a, const Axes& axis, bool keepdims, const On& on) {
          return reduce(a.array(on), axis, keepdims, on);
        },
        "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "stream"_a = nb::none(),
        doc);
    c_.def(name, reduce, "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(),
           "stream"_a = nb::none(), doc);
  }

 private:
  nb::module_& m_;
  ArrayClass& c_;
};

void bind_elementwise(Table& table) {
  table.binary("add", &add, "a + b");
  table.binary("subtract", &subtract, "a - b");
  table.binary("multiply", &multiply, "a * b");
  table.binary("divide", &divide, "a / b; of integers: float32");
  table.binary("floor_divide", &floor_divide, "a // b, rounded down; integers by zero give zero");
  table.binary("remainder", &remainder, "a % b, with the sign of b");
  table.binary("power", &power, "a ** b");
  table.binary("maximum", &maximum, "The larger of both; NaN wins");
  table.binary("minimum", &minimum, "The smaller of both; NaN wins");
  table.binary("equal", &equal, "a == b");
  table.binary("not_equal", &not_equal, "a != b");
  table.binary("less", &less, "a < b");
  table.binary("less_equal", &less_equal, "a <= b");
  table.binary("greater", &greater, "a > b");
  table.binary("greater_equal", &greater_equal, "a >= b");
  table.binary("logical_and", &logical_and, "Whether both are not zero");
  table.binary("logical_or", &logical_or, "Whether one is not zero");

  table.unary("negative", &negative, "-a");
  table.unary("abs", &abs, "The absolute value", true);
  table.unary("sign", &sign, "-1, 0 or 1");
  table.unary("square", &square, "a * a", true);
  table.unary("exp", &exp, "e ** a", true);
  table.unary("expm1", &expm1, "e ** a - 1, exact near zero");
  table.unary("log", &log, "The natural logarithm", true);
  table.unary("log1p", &log1p, "log(1 + a), exact near zero", true);
  table.unary("log2", &log2, "The logarithm to base 2", true);
  table.unary("sqrt", &sqrt, "The square root", true);
  table.unary("rsqrt", &rsqrt, "1 / sqrt(a)", true);
  table.unary("sin", &sin, "The sine", true);
  table.unary("cos", &cos, "The cosine", true);
  table.unary("tan", &tan, "The tangent");
  table.unary("sinh", &sinh, "The hyperbolic sine");
  table.unary("cosh", &cosh, "The hyperbolic cosine");
  table.unary("tanh", &tanh, "The hyperbolic tangent");
  table.unary("erf", &erf, "The error function");
  table.unary("sigmoid", &sigmoid, "1 / (1 + exp(-a))");
  table.unary("reciprocal", &reciprocal, "1 / a", true);
  table.unary("floor", &floor, "Rounded down");
  table.unary("ceil", &ceil, "Rounded up");
  table.unary("round", &round, "Rounded to the nearest integer, halves to even");
  table.unary("logical_not", &logical_not, "Whether it is zero");
  table.unary("isnan", &isnan, "Whether it is NaN");

  table.reduction("sum", &sum, "The sum over the axes, or over all; over no elements: 0");
  table.reduction("mean", &mean, "The mean over the axes, or over all; over no elements: NaN");
  table.reduction("max", &max, "The largest element along the axes, or of all; NaN wins");
  table.reduction("min", &min, "The smallest element along the axes, or of all; NaN wins");
}

// A view's function and method at once: `f` takes the array first.
template <typename F, typename... Extra>
void view(nb::module_& m, ArrayClass& c, const char* name, F f, const char* doc,
          const Extra&... extra) {
  m.def(name, f, "a"_a, extra..., doc);
  c.def(name, f, extra..., doc);
}

Array transposed(const Array& a, const Axes& axes) {
  return axes.values ? transpose(a, std::span<const int64_t>(*axes.values)) : transpose(a);
}

size_t normal_axis(int64_t axis, size_t ndim) {
  const auto n = static_cast<int64_t>(ndim);
  if (axis < -n || axis >= n) {
    throw UsageError("axis " + std::to_string(axis) + " of an array with " + std::to_string(n) +
                     " axes");
  }
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

Array squeezed(const Array& a, const Axes& axes, const On& on) {
  if (!axes.values) return squeeze(a);
  std::vector<bool> gone(a.ndim(), false);
  for (const int64_t axis : *axes.values) {
    const size_t at = normal_axis(axis, a.ndim());
    if (a.shape()[at] != 1) {
      throw UsageError("squeeze: axis " + std::to_string(axis) + " of shape " +
                       to_string(a.shape()) + " is not of length one");
    }
    gone[at] = true;
  }
  Shape left;
  for (size_t i = 0; i < a.ndim(); ++i) {
    if (!gone[i]) left.push_back(a.shape()[i]);
  }
  return reshape(a, left, on);
}

Array expanded(const Array& a, const Axes& axes, const On& on) {
  const size_t rank = a.ndim() + (axes.values ? axes.values->size() : 0);
  if (!axes.values || rank > Dims::kMaxDims) throw nb::value_error("expand_dims needs axes");
  std::vector<bool> added(rank, false);
  for (const int64_t axis : *axes.values) added[normal_axis(axis, rank)] = true;
  Shape shape;
  size_t from = 0;
  for (size_t i = 0; i < rank; ++i) {
    if (!added[i] && from == a.ndim()) throw UsageError("expand_dims: an axis is given twice");
    shape.push_back(added[i] ? 1 : a.shape()[from++]);
  }
  return reshape(a, shape, on);
}

void bind_views(nb::module_& m, ArrayClass& c) {
  const auto stream = "stream"_a = nb::none();
  view(m, c, "transpose", &transposed, "Axes in another order; reversed if none is given",
       "axes"_a = nb::none());
  view(m, c, "swapaxes", &swap_axes, "Two axes exchanged", "axis1"_a, "axis2"_a);
  view(m, c, "squeeze", &squeezed, "Without axes of length one", "axis"_a = nb::none(),
       nb::kw_only(), stream);
  view(m, c, "broadcast_to", &broadcast_to, "Stretched to a shape", "shape"_a);
  view(m, c, "astype", &astype, "Converted to a dtype", "dtype"_a, nb::kw_only(), stream);
  m.def("expand_dims", &expanded, "a"_a, "axis"_a, nb::kw_only(), stream,
        "With new axes of length one, at these positions of the result");
  m.def(
      "reshape",
      [](const ArrayLike& a, const Shape& shape, const On& on) {
        return reshape(a.array(on), shape, on);
      },
      "a"_a, "shape"_a, nb::kw_only(), stream,
      "The same elements in another shape; one length may be -1");
  c.def(
      "reshape",
      [](const Array& a, const nb::args& shape, const On& on) {
        const nb::object given =
            shape.size() == 1 ? nb::object(shape[0]) : nb::borrow<nb::object>(shape);
        return reshape(a, nb::cast<Shape>(given), on);
      },
      "shape"_a, "stream"_a = nb::none(),
      nb::sig("def reshape(self, *shape: int | collections.abc.Sequence[int], "
              "stream: Stream | Device | str | None = None) -> array"),
      "The same elements in another shape; one length may be -1");
  const auto flat = [](const Array& a, const On& on) { return flatten(a, on); };
  view(m, c, "flatten", flat, "In one axis", nb::kw_only(), stream);
  m.def(
      "as_strided",
      [](const Array& a, const Shape& shape, const Strides& strides, int64_t offset) {
        return as_strided(a, shape, strides, offset);
      },
      "a"_a, "shape"_a, "strides"_a, "offset"_a = 0,
      "The memory of the array's result through any layout that stays inside it");
  const auto rows = [](const Array& a, const On& on) { return contiguous(a, on); };
  m.def("contiguous", rows, "a"_a, nb::kw_only(), stream,
        "The array itself if it is row-contiguous, otherwise a row-contiguous copy");
}

void bind_others(nb::module_& m, ArrayClass& c) {
  const auto stream = "stream"_a = nb::none();
  m.def(
      "clip",
      [](const ArrayLike& a, const std::optional<ArrayLike>& low,
         const std::optional<ArrayLike>& high, const On& on) {
        const Array array = a.array(on);
        if (low && high) return clip(array, low->term(on, array), high->term(on, array), on);
        if (low) return maximum(array, low->term(on, array), on);
        if (high) return minimum(array, high->term(on, array), on);
        throw nb::value_error("clip needs a lower or an upper limit");
      },
      "a"_a, "a_min"_a.none() = nb::none(), "a_max"_a.none() = nb::none(), nb::kw_only(), stream,
      "Limited from below and above");
  m.def(
      "where",
      [](const ArrayLike& condition, const ArrayLike& x, const ArrayLike& y, const On& on) {
        return where(condition.array(on, x, y), x.term(on, condition, y), y.term(on, condition, x),
                     on);
      },
      "condition"_a, "x"_a, "y"_a, nb::kw_only(), stream,
      "x where the condition is not zero, y elsewhere");
  view(m, c, "argmax", &argmax,
       "The position of the largest element, as uint32: the first of several, the first NaN",
       "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), stream);
  m.def(
      "softmax",
      [](const ArrayLike& a, int64_t axis, const On& on) { return softmax(a.array(on), axis, on); },
      "a"_a, "axis"_a = -1, nb::kw_only(), stream, "exp(a - max) / sum, over one axis");
  m.def(
      "matmul",
      [](const ArrayLike& a, const ArrayLike& b, const On& on) {
        return matmul(a.array(on, b), b.array(on, a), on);
      },
      "a"_a, "b"_a, nb::kw_only(), stream,
      "The matrix product over the last two axes; floats only");
  m.def(
      "concatenate",
      [](const std::vector<ArrayLike>& arrays, int64_t axis, const On& on) {
        return concatenate(std::span<const Array>(arrays_of(arrays, on)), axis, on);
      },
      "arrays"_a, "axis"_a = 0, nb::kw_only(), stream, "Joined along an axis");
  m.def(
      "stack",
      [](const std::vector<ArrayLike>& arrays, int64_t axis, const On& on) {
        return stack(arrays_of(arrays, on), axis, on);
      },
      "arrays"_a, "axis"_a = 0, nb::kw_only(), stream, "Joined along a new axis");
  m.def(
      "take",
      [](const Array& a, const ArrayLike& indices, std::optional<int64_t> axis, const On& on) {
        return take(a, indices.array(on, a), axis, on);
      },
      "a"_a, "indices"_a, "axis"_a = nb::none(), nb::kw_only(), stream,
      "Elements along an axis, or of the flattened array, at integer positions");
  m.def(
      "take_along_axis",
      [](const Array& a, const ArrayLike& indices, int64_t axis, const On& on) {
        return take_along_axis(a, indices.array(on, a), axis, on);
      },
      "a"_a, "indices"_a, "axis"_a, nb::kw_only(), stream,
      "One position along the axis for each element of the result");
  m.def(
      "put_along_axis",
      [](const Array& a, const ArrayLike& indices, const ArrayLike& values, int64_t axis,
         const On& on) {
        return scatter_along_axis(a, indices.array(on, a), values.array(on, a), axis, Update::set,
                                  on);
      },
      "a"_a, "indices"_a, "values"_a, "axis"_a, nb::kw_only(), stream,
      "The array with one element along the axis replaced for each index");
  m.def(
      "quantized_matmul",
      [](const Array& x, const Array& w, const Array& scales, const Array& biases, bool transpose,
         int64_t group_size, int64_t bits, const On& on) {
        return quantized_matmul(x, w, scales, biases,
                                {.group_size = group_size, .bits = bits, .transpose = transpose},
                                on);
      },
      "x"_a, "w"_a, "scales"_a, "biases"_a, "transpose"_a = true, "group_size"_a = 64, "bits"_a = 4,
      nb::kw_only(), stream, "x times weights of 4 bits; see quantize");
  m.def(
      "quantize",
      [](const Array& w, int64_t group_size, int64_t bits, const On& on) {
        const std::vector<Array> made = quantize(w, {.group_size = group_size, .bits = bits}, on);
        return nb::make_tuple(made[0], made[1], made[2]);
      },
      "w"_a, "group_size"_a = 64, "bits"_a = 4, nb::kw_only(), stream,
      nb::sig("def quantize(w: array, group_size: int = 64, bits: int = 4, *, "
              "stream: Stream | Device | str | None = None) -> tuple[array, array, array]"),
      "Quantizes a matrix of floats into what quantized_matmul takes: w, scales, biases");
}

}  // namespace

void bind_operations(nb::module_& m, ArrayClass& c) {
  Table table(m, c);
  bind_elementwise(table);
  bind_views(m, c);
  bind_others(m, c);
}

}  // namespace holdfast::python
