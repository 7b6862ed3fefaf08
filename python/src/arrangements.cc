#include "holdfast/creation.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"
#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

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

Array squeezed(const Array& a, const Axes& axes, const On& /*on*/) {
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
  std::vector<int64_t> each;
  for (size_t i = 0; i < a.ndim(); ++i) {
    if (gone[i]) each.push_back(static_cast<int64_t>(i));
  }
  return each.empty() ? a : squeeze(a, each);
}

Array expanded(const Array& a, const Axes& axes, const On& /*on*/) {
  const size_t rank = a.ndim() + (axes.values ? axes.values->size() : 0);
  if (!axes.values || rank > Dims::kMaxDims) throw nb::value_error("expand_dims needs axes");
  std::vector<bool> added(rank, false);
  for (const int64_t axis : *axes.values) added[normal_axis(axis, rank)] = true;
  std::vector<int64_t> each;
  for (size_t i = 0; i < rank; ++i) {
    if (added[i]) each.push_back(static_cast<int64_t>(i));
  }
  if (each.size() != axes.values->size()) {
    throw UsageError("expand_dims: an axis is given twice");
  }
  return expand_dims(a, each);
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

// A number, or several.
struct Numbers {
  explicit Numbers(const Axes& given, const char* what) {
    if (!given.values) throw nb::type_error(what);
    values = *given.values;
  }
  std::vector<int64_t> values;
  std::span<const int64_t> span() const { return values; }
};

void bind_moves(nb::module_& m, ArrayClass& c) {
  const auto stream = "stream"_a = nb::none();
  view(
      m, c, "moveaxis",
      [](const Array& a, const Axes& source, const Axes& destination) {
        const Numbers from(source, "moveaxis needs axes");
        const Numbers to(destination, "moveaxis needs axes");
        return moveaxis(a, from.span(), to.span());
      },
      "Axes moved to other places; the others keep their order", "source"_a, "destination"_a);
  m.def(
      "flip",
      [](const Array& a, const Axes& axis) {
        return axis.values ? flip(a, std::span<const int64_t>(*axis.values)) : flip(a);
      },
      "a"_a, "axis"_a = nb::none(), "Elements in reversed order along the axes, or along all");
  m.def(
      "roll",
      [](const Array& a, const Axes& shift, const Axes& axis, const On& on) {
        std::vector<int64_t> shifts = Numbers(shift, "roll needs a number of places").values;
        if (!axis.values) {
          if (shifts.size() != 1) throw nb::value_error("several shifts need an axis each");
          return roll(a, shifts[0], {}, on);
        }
        if (shifts.size() == 1) shifts.resize(axis.values->size(), shifts[0]);
        return roll(a, shifts, *axis.values, on);
      },
      "a"_a, "shift"_a, "axis"_a = nb::none(), nb::kw_only(), stream,
      "Elements moved along axes; those that leave at the end come in at the start");
  m.def(
      "tile",
      [](const Array& a, const Axes& reps, const On& on) {
        return tile(a, Numbers(reps, "tile needs repetitions").span(), on);
      },
      "a"_a, "reps"_a, nb::kw_only(), stream, "The whole array so many times along each axis");
  m.def(
      "repeat",
      [](const Array& a, int64_t repeats, std::optional<int64_t> axis, const On& on) {
        return repeat(a, repeats, axis, on);
      },
      "array"_a, "repeats"_a, "axis"_a = nb::none(), nb::kw_only(), stream,
      "Each element so many times, one after the other");
  view(
      m, c, "diff",
      [](const Array& a, int64_t n, int64_t axis, const On& on) { return diff(a, n, axis, on); },
      "Differences of neighbours along an axis, n times over", "n"_a = 1, "axis"_a = -1,
      nb::kw_only(), stream);
  m.def("tril", &tril, "x"_a, "k"_a = 0, nb::kw_only(), stream, "Zeros above a diagonal");
  m.def("triu", &triu, "x"_a, "k"_a = 0, nb::kw_only(), stream, "Zeros below a diagonal");
}

void bind_joins(nb::module_& m, ArrayClass& c) {
  const auto stream = "stream"_a = nb::none();
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
  view(
      m, c, "split",
      [](const Array& a, const nb::object& parts, int64_t axis) {
        if (PyLong_Check(parts.ptr())) return split(a, nb::cast<int64_t>(parts), axis);
        const auto at = nb::cast<std::vector<int64_t>>(parts);
        return split(a, std::span<const int64_t>(at), axis);
      },
      "Equal parts along an axis, or parts that end at these positions", "indices_or_sections"_a,
      "axis"_a = 0);
  m.def(
      "meshgrid",
      [](const nb::args& arrays, bool sparse, const std::string& indexing) {
        if (indexing != "xy" && indexing != "ij") {
          throw nb::value_error("indexing is 'xy' or 'ij'");
        }
        const auto given = nb::cast<std::vector<ArrayLike>>(arrays);
        return meshgrid(std::span<const Array>(arrays_of(given, {})),
                        indexing == "xy" ? Indexing::xy : Indexing::ij, sparse);
      },
      "arrays"_a, "sparse"_a = false, "indexing"_a = "xy",
      nb::sig("def meshgrid(*arrays: array, sparse: bool = False, indexing: str = 'xy') "
              "-> list[array]"),
      "Coordinates of a grid");
}

}  // namespace

void bind_arrangements(nb::module_& m, ArrayClass& c) {
  bind_views(m, c);
  bind_moves(m, c);
  bind_joins(m, c);
}

}  // namespace holdfast::python
