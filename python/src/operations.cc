#include "holdfast/views.h"
#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

using Unary = Array (*)(const Array&, const On&);
using Binary = Array (*)(const Term&, const Term&, const On&);
using Reduction = Array (*)(const Array&, const Reduce&, const On&);
using Spread = Array (*)(const Array&, const Reduce&, double, const On&);
using Position = Array (*)(const Array&, std::optional<int64_t>, bool, const On&);

Reduce over(const Axes& axis, bool keepdims) {
  return {.axes = axis.values.value_or(std::vector<int64_t>()), .keep_dims = keepdims};
}

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
      return f(a, over(axis, keepdims), on);
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

  // Of how far elements are from their mean.
  void spread(const char* name, Spread f, const char* doc) {
    const auto call = [f](const Array& a, const Axes& axis, bool keepdims, double ddof,
                          const On& on) { return f(a, over(axis, keepdims), ddof, on); };
    const auto stream = "stream"_a = nb::none();
    m_.def(name, call, "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, "ddof"_a = 0.0,
           nb::kw_only(), stream, doc);
    c_.def(name, call, "axis"_a = nb::none(), "keepdims"_a = false, "ddof"_a = 0.0, nb::kw_only(),
           stream, doc);
  }

  // Of one element along an axis, or in the flattened array.
  void position(const char* name, Position f, const char* doc) {
    const auto stream = "stream"_a = nb::none();
    m_.def(name, f, "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), stream, doc);
    c_.def(name, f, "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), stream, doc);
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

  table.binary("logical_xor", &logical_xor, "Whether exactly one is not zero");
  table.binary("bitwise_and", &bitwise_and, "a & b, of integers and bool");
  table.binary("bitwise_or", &bitwise_or, "a | b, of integers and bool");
  table.binary("bitwise_xor", &bitwise_xor, "a ^ b, of integers and bool");
  table.binary("left_shift", &left_shift, "a << b, of integers");
  table.binary("right_shift", &right_shift, "a >> b, of integers");
  table.binary("arctan2", &arctan2, "The angle of the point (b, a), from -pi to pi");

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
  table.unary("arcsin", &arcsin, "The inverse sine");
  table.unary("arccos", &arccos, "The inverse cosine");
  table.unary("arctan", &arctan, "The inverse tangent");
  table.unary("arcsinh", &arcsinh, "The inverse hyperbolic sine");
  table.unary("arccosh", &arccosh, "The inverse hyperbolic cosine");
  table.unary("arctanh", &arctanh, "The inverse hyperbolic tangent");
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
  table.unary("bitwise_invert", &bitwise_invert, "~a, of integers and bool");
  table.unary("isnan", &isnan, "Whether it is NaN");
  table.unary("isfinite", &isfinite, "Whether it is neither NaN nor infinite");
  table.unary("isinf", &isinf, "Whether it is infinite");

  table.reduction("sum", &sum, "The sum over the axes, or over all; over no elements: 0");
  table.reduction("mean", &mean, "The mean over the axes, or over all; over no elements: NaN");
  table.reduction("max", &max, "The largest element along the axes, or of all; NaN wins");
  table.reduction("min", &min, "The smallest element along the axes, or of all; NaN wins");
  table.reduction("prod", &prod, "The product over the axes, or over all; over no elements: 1");
  table.reduction("all", &all, "Whether all elements are not zero");
  table.reduction("any", &any, "Whether any element is not zero");
  table.spread("var", &var, "The mean of squared distances from the mean");
  table.spread("std", &holdfast::std, "The root of var");
  table.position("argmax", &argmax,
                 "The position of the largest element, as uint32: the first one, the first NaN");
  table.position("argmin", &argmin,
                 "The position of the smallest element, as uint32: the first one, the first NaN");
}

void bind_others(nb::module_& m) {
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
      "outer",
      [](const ArrayLike& a, const ArrayLike& b, const On& on) {
        return outer(a.array(on, b), b.array(on, a), on);
      },
      "a"_a, "b"_a, nb::kw_only(), stream, "Products of all elements of a with all of b");
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
  bind_others(m);
}

}  // namespace holdfast::python
