#include "holdfast/ops.h"
#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

using Binary = Array (*)(const Term&, const Term&, const On&);

// a OP b and b OP a. What does not look like an array gives NotImplemented.
void both_ways(ArrayClass& c, const char* name, const char* reflected, Binary f) {
  c.def(
      name, [f](const Array& a, const ArrayLike& b) { return f(a, b.term({}, a), {}); },
      nb::is_operator());
  c.def(
      reflected, [f](const Array& a, const ArrayLike& b) { return f(b.term({}, a), a, {}); },
      nb::is_operator());
}

// a OP= b: the same Python object then shows the result. Other objects that showed the same
// elements still show them.
void in_place(ArrayClass& c, const char* name, Binary f) {
  c.def(
      name,
      [f](Array& a, const ArrayLike& b) -> Array& {
        a = f(Term(a), b.term({}, a), {});
        return a;
      },
      nb::is_operator(), nb::rv_policy::none);
}

void compares(ArrayClass& c, const char* name, Binary f) {
  c.def(
      name, [f](const Array& a, const ArrayLike& b) { return f(a, b.term({}, a), {}); },
      nb::is_operator());
}

}  // namespace

void bind_operators(ArrayClass& c) {
  both_ways(c, "__add__", "__radd__", &add);
  both_ways(c, "__sub__", "__rsub__", &subtract);
  both_ways(c, "__mul__", "__rmul__", &multiply);
  both_ways(c, "__truediv__", "__rtruediv__", &divide);
  both_ways(c, "__floordiv__", "__rfloordiv__", &floor_divide);
  both_ways(c, "__mod__", "__rmod__", &remainder);
  both_ways(c, "__pow__", "__rpow__", &power);
  both_ways(c, "__and__", "__rand__", &bitwise_and);
  both_ways(c, "__or__", "__ror__", &bitwise_or);
  both_ways(c, "__xor__", "__rxor__", &bitwise_xor);
  both_ways(c, "__lshift__", "__rlshift__", &left_shift);
  both_ways(c, "__rshift__", "__rrshift__", &right_shift);
  in_place(c, "__iadd__", &add);
  in_place(c, "__isub__", &subtract);
  in_place(c, "__imul__", &multiply);
  in_place(c, "__itruediv__", &divide);
  in_place(c, "__ifloordiv__", &floor_divide);
  in_place(c, "__imod__", &remainder);
  in_place(c, "__ipow__", &power);
  in_place(c, "__iand__", &bitwise_and);
  in_place(c, "__ior__", &bitwise_or);
  in_place(c, "__ixor__", &bitwise_xor);
  in_place(c, "__ilshift__", &left_shift);
  in_place(c, "__irshift__", &right_shift);
  compares(c, "__eq__", &equal);
  compares(c, "__ne__", &not_equal);
  compares(c, "__lt__", &less);
  compares(c, "__le__", &less_equal);
  compares(c, "__gt__", &greater);
  compares(c, "__ge__", &greater_equal);
  // Comparing gives arrays, so arrays cannot be keys.
  c.attr("__hash__") = nb::none();
  c.def("__invert__", [](const Array& a) { return bitwise_invert(a); });
  c.def("__neg__", [](const Array& a) { return negative(a); });
  c.def("__pos__", [](const Array& a) { return a; });
  c.def("__abs__", [](const Array& a) { return abs(a); });
  c.def(
      "__matmul__", [](const Array& a, const ArrayLike& b) { return matmul(a, b.array({}, a)); },
      nb::is_operator());
  c.def(
      "__rmatmul__", [](const Array& a, const ArrayLike& b) { return matmul(b.array({}, a), a); },
      nb::is_operator());
}

}  // namespace holdfast::python
