#include "holdfast/creation.h"

#include "holdfast/ops.h"
#include "holdfast/views.h"
#include "python/src/bindings.h"
#include "python/src/convert.h"

namespace holdfast::python {
namespace {

bool all_integers(std::initializer_list<nb::handle> numbers) {
  for (const nb::handle n : numbers) {
    if (!n.is_none() && PyLong_Check(n.ptr()) == 0) return false;
  }
  return true;
}

double number_of(nb::handle h, double otherwise) {
  return h.is_none() ? otherwise : nb::cast<double>(h);
}

// arange(stop) or arange(start, stop, step), as NumPy has it.
Array arange_of(nb::handle start, nb::handle stop, nb::handle step, std::optional<Dtype> dtype,
                const On& on) {
  const Dtype made =
      dtype.value_or(all_integers({start, stop, step}) ? Dtype::int32 : Dtype::float32);
  const double by = number_of(step, 1);
  if (stop.is_none()) return arange(0, number_of(start, 0), by, made, on);
  return arange(number_of(start, 0), number_of(stop, 0), by, made, on);
}

// A number goes into the kernel that fills; an array is stretched and copied.
Array full_of(const Shape& shape, const ArrayLike& value, std::optional<Dtype> dtype,
              const On& on) {
  const Term term = value.term(on);
  if (term.kind() == Term::Kind::array) {
    const Array whole = broadcast_to(term.array(), shape);
    return dtype ? copy(astype(whole, *dtype, on), on) : copy(whole, on);
  }
  const Dtype natural = term.kind() == Term::Kind::boolean   ? Dtype::bool_
                        : term.kind() == Term::Kind::integer ? Dtype::int32
                                                             : Dtype::float32;
  const double number = term.number();
  const bool exact = term.kind() == Term::Kind::fraction || (number < 0x1p53 && number > -0x1p53);
  if (!exact) return copy(broadcast_to(to_array(value.object(), dtype, on), shape), on);
  return full(shape, number, dtype.value_or(natural), on);
}

void bind_filled(nb::module_& m) {
  const auto stream = "stream"_a = nb::none();
  m.def("zeros", &zeros, "shape"_a, "dtype"_a = Dtype::float32, nb::kw_only(), stream,
        "An array of zeros");
  m.def("ones", &ones, "shape"_a, "dtype"_a = Dtype::float32, nb::kw_only(), stream,
        "An array of ones");
  m.def("full", &full_of, "shape"_a, "vals"_a, "dtype"_a = nb::none(), nb::kw_only(), stream,
        "An array of one number, or of an array stretched to the shape");
  m.def("zeros_like", &zeros_like, "a"_a, nb::kw_only(), stream,
        "Zeros of the array's shape and dtype");
  m.def("ones_like", &ones_like, "a"_a, nb::kw_only(), stream,
        "Ones of the array's shape and dtype");
  m.def("arange", &arange_of, "start"_a, "stop"_a = nb::none(), "step"_a = nb::none(),
        "dtype"_a = nb::none(), nb::kw_only(), stream,
        nb::sig("def arange(start: int | float, stop: int | float | None = None, "
                "step: int | float | None = None, dtype: Dtype | str | type | None = None, *, "
                "stream: Stream | Device | str | None = None) -> array"),
        "start, start + step, ... below stop; arange(stop) begins at zero");
  m.def(
      "eye", [](int64_t n, Dtype dtype, const On& on) { return eye(n, dtype, on); }, "n"_a,
      "dtype"_a = Dtype::float32, nb::kw_only(), stream, "The identity matrix");
  m.def("linspace", &linspace, "start"_a, "stop"_a, "num"_a = 50, "dtype"_a = Dtype::float32,
        "endpoint"_a = true, nb::kw_only(), stream,
        "Numbers at equal distances from start to stop");
  m.def("asarray", &as_array, "a"_a, "dtype"_a = nb::none(), nb::kw_only(), "copy"_a = nb::none(),
        stream,
        nb::sig("def asarray(a: array | bool | int | float | typing.Any, "
                "dtype: Dtype | str | type | None = None, *, copy: bool | None = None, "
                "stream: Stream | Device | str | None = None) -> array"),
        "The elements as an array. Memory that is read-only is shared; memory that Python may "
        "still write to is copied, unless copy=False promises that nobody writes.");
}

void bind_random(nb::module_& m) {
  nb::class_<RandomKey>(m, "RandomKey", nb::is_final(), "What random numbers are a function of.")
      .def(
          "__init__", [](RandomKey* self, uint64_t seed) { new (self) RandomKey{.value = seed}; },
          "seed"_a)
      .def("split", &RandomKey::split, "i"_a, "A key for each i, all independent")
      .def(
          "__eq__", [](const RandomKey& a, const RandomKey& b) { return a.value == b.value; },
          nb::is_operator())
      .def("__hash__", [](const RandomKey& k) { return k.value; })
      .def("__repr__",
           [](const RandomKey& k) { return "RandomKey(" + std::to_string(k.value) + ")"; })
      .def("__reduce__", [](const RandomKey& k) {
        return nb::make_tuple(nb::type<RandomKey>(), nb::make_tuple(k.value));
      });
  m.def("_random_seed", &random_seed, "seed"_a);
  m.def("_next_random_key", &next_random_key);
  m.def(
      "_random_uniform",
      [](const Shape& shape, Dtype dtype, RandomKey key, const On& on) {
        return random_uniform(shape, dtype, key, on);
      },
      "shape"_a, "dtype"_a, "key"_a, "stream"_a = nb::none());
  m.def(
      "_random_normal",
      [](const Shape& shape, Dtype dtype, RandomKey key, const On& on) {
        return random_normal(shape, dtype, key, on);
      },
      "shape"_a, "dtype"_a, "key"_a, "stream"_a = nb::none());
}

}  // namespace

void bind_creation(nb::module_& m) {
  bind_filled(m);
  bind_random(m);
}

}  // namespace holdfast::python
