// Operations that are a few views and a copy.

#include <fmt/format.h>

#include <array>
#include <vector>

#include "holdfast/array/compile/trace.h"
#include "holdfast/array/layouts.h"
#include "holdfast/base/error.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

Array along(const Array& a, size_t axis, const Slice& part) {
  array::refuse_lengths(a, "an operation on parts of an axis");
  return a.with_layout(array::slice_along(a.layout(), axis, part));
}

void check_repetitions(int64_t repetitions, const char* what) {
  if (repetitions >= 0 && repetitions <= kMaxLength) return;
  throw UsageError(
      fmt::format("{}: {} repetitions; give a number from 0 to {}", what, repetitions, kMaxLength));
}

// The array with the elements of an axis `repetitions` times: all of them again and again, or
// (`each`) one after the other. An axis of that length is inserted and stretched, which the copy
// then reads.
Array repeated(const Array& a, size_t axis, int64_t repetitions, bool each, const On& on) {
  array::refuse_lengths(a, "repeat or tile");
  if (repetitions == 1) return a;
  if (repetitions == 0) return along(a, axis, {.stop = 0});
  Shape result = a.shape();
  result[axis] *= repetitions;
  if (elements(result) == 0) return reshape(a, result, on);
  // The axes around it as one each, where there are too many for one more.
  int64_t outer = 1;
  int64_t inner = 1;
  for (size_t i = 0; i < a.ndim(); ++i) {
    if (i != axis) (i < axis ? outer : inner) *= a.shape()[i];
  }
  const bool many = a.ndim() == Dims::kMaxDims;
  const Array of = many ? reshape(a, {outer, a.shape()[axis], inner}, on) : a;
  const size_t at = many ? 1 : axis;
  const auto inserted = static_cast<int64_t>(each ? at + 1 : at);
  const Array with_axis = expand_dims(of, {inserted});
  Shape stretched = with_axis.shape();
  stretched[static_cast<size_t>(inserted)] = repetitions;
  return reshape(broadcast_to(with_axis, stretched), result, on);
}

}  // namespace

Array roll(const Array& a, int64_t shift, std::optional<int64_t> axis, const On& on) {
  if (!axis) {
    return reshape(roll(reshape(a, {a.size()}, on), shift, 0, on), a.shape(), on);
  }
  array::refuse_lengths(a, "roll");
  const size_t at = array::normal_axis(*axis, a.ndim(), "roll");
  const int64_t length = a.shape()[at];
  const int64_t by = length == 0 ? 0 : (shift % length + length) % length;
  if (by == 0) return a;
  const std::array parts{along(a, at, {.start = length - by}), along(a, at, {.stop = length - by})};
  return concatenate(parts, static_cast<int64_t>(at), on);
}
Array roll(const Array& a, std::span<const int64_t> shifts, std::span<const int64_t> axes,
           const On& on) {
  if (shifts.size() != axes.size()) {
    throw UsageError(fmt::format("roll: {} numbers of places for {} axes; give one for each axis",
                                 shifts.size(), axes.size()));
  }
  Array result = a;
  for (size_t i = 0; i < axes.size(); ++i) result = roll(result, shifts[i], axes[i], on);
  return result;
}

Array tile(const Array& a, std::span<const int64_t> repetitions, const On& on) {
  for (const int64_t n : repetitions) check_repetitions(n, "tile");
  Array result = a;
  if (repetitions.size() > a.ndim()) {
    Shape shape = Dims::filled(repetitions.size() - a.ndim(), 1);
    for (const int64_t length : a.shape()) shape.push_back(length);
    result = reshape(a, shape, on);
  }
  const size_t first = result.ndim() - repetitions.size();
  // The last axis first: later copies then move long rows.
  for (size_t i = repetitions.size(); i-- > 0;) {
    result = repeated(result, first + i, repetitions[i], /*each=*/false, on);
  }
  return result;
}
Array tile(const Array& a, std::initializer_list<int64_t> repetitions, const On& on) {
  return tile(a, std::span<const int64_t>(repetitions.begin(), repetitions.size()), on);
}

Array repeat(const Array& a, int64_t repetitions, std::optional<int64_t> axis, const On& on) {
  check_repetitions(repetitions, "repeat");
  const Array of = axis ? a : reshape(a, {a.size()}, on);
  return repeated(of, array::normal_axis(axis.value_or(0), of.ndim(), "repeat"), repetitions,
                  /*each=*/true, on);
}

Array outer(const Array& a, const Array& b, const On& on) {
  return multiply(reshape(a, {a.size(), 1}, on), reshape(b, {1, b.size()}, on), on);
}

Array diff(const Array& a, int64_t n, int64_t axis, const On& on) {
  if (n < 0) throw UsageError(fmt::format("diff: {} times over; give a number from 0 on", n));
  const size_t at = array::normal_axis(axis, a.ndim(), "diff");
  Array result = a;
  for (int64_t i = 0; i < n && result.shape()[at] > 0; ++i) {
    const Array later = along(result, at, {.start = 1});
    const Array earlier = along(result, at, {.stop = -1});
    result =
        a.dtype() == Dtype::bool_ ? not_equal(later, earlier, on) : subtract(later, earlier, on);
  }
  return result;
}

}  // namespace holdfast
