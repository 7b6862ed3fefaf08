#include "holdfast/sorting.h"

#include "holdfast/scans.h"
#include "holdfast/views.h"
#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

using Scanned = Array (*)(const Array&, std::optional<int64_t>, const Scan&, const On&);
using Sorted = Array (*)(const Array&, int64_t, bool, const On&);

void scan(nb::module_& m, ArrayClass& c, const char* name, Scanned f, const char* doc) {
  const auto call = [f](const Array& a, std::optional<int64_t> axis, bool reverse, bool inclusive,
                        const On& on) {
    return f(a, axis, {.reverse = reverse, .inclusive = inclusive}, on);
  };
  const auto stream = "stream"_a = nb::none();
  m.def(name, call, "a"_a, "axis"_a = nb::none(), nb::kw_only(), "reverse"_a = false,
        "inclusive"_a = true, stream, doc);
  c.def(name, call, "axis"_a = nb::none(), nb::kw_only(), "reverse"_a = false, "inclusive"_a = true,
        stream, doc);
}

// Without an axis, of the flattened array.
void sorted(nb::module_& m, const char* name, Sorted f, const char* doc) {
  m.def(
      name,
      [f](const Array& a, std::optional<int64_t> axis, bool descending, const On& on) {
        return axis ? f(a, *axis, descending, on) : f(flatten(a, on), 0, descending, on);
      },
      "a"_a, nb::arg("axis").none() = -1, "descending"_a = false, nb::kw_only(),
      "stream"_a = nb::none(), doc);
}

}  // namespace

void bind_sorting(nb::module_& m, ArrayClass& c) {
  scan(m, c, "cumsum", &cumsum, "Sums of all elements up to each one along an axis");
  scan(m, c, "cumprod", &cumprod, "Products of all elements up to each one along an axis");
  sorted(m, "sort", &sort, "In ascending order along an axis; stable, NaN last");
  sorted(m, "argsort", &argsort, "The positions, as uint32, that sort the array");
  m.def(
      "topk",
      [](const Array& a, int64_t k, std::optional<int64_t> axis, const On& on) {
        return axis ? topk(a, k, *axis, on) : topk(flatten(a, on), k, 0, on);
      },
      "a"_a, "k"_a, nb::arg("axis").none() = -1, nb::kw_only(), "stream"_a = nb::none(),
      "The k largest elements along an axis, the largest first");
  m.def(
      "searchsorted",
      [](const Array& a, const ArrayLike& v, const std::string& side, const On& on) {
        if (side != "left" && side != "right") throw nb::value_error("side is 'left' or 'right'");
        return searchsorted(a, v.array(on, a), side == "left" ? Side::left : Side::right, on);
      },
      "a"_a, "v"_a, "side"_a = "left", nb::kw_only(), "stream"_a = nb::none(),
      "Where to insert values so that an ascending array stays sorted, as uint32");
}

}  // namespace holdfast::python
